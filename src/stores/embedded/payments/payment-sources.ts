import { MOST_RETURN_URL, MOST_SOURCE } from '../../../payments/values/content.js';
import type { Database } from '../file/sqlite.js';

export interface PaymentSources {
  /** Keeps a source in the commit of the claim that made the row. `source` is as in `ContentColumns`. */
  keep(key: string, source: string): void;
  find(key: string): string | null;
  /** In the commit that makes the payment final. */
  erase(key: string): void;
}

/** The key of a row that holds nothing. It has the length of a payment's key, so that every row has the same size. */
const NO_KEY = '-'.repeat(36);
/** The longest text: a source, a blank, and the address to return to (`payment-rows.ts`). */
const MOST = MOST_SOURCE + 1 + MOST_RETURN_URL;
/** Blanks at the end belong to neither a source nor an address. */
const padded = (source: string) => source.padEnd(MOST, ' ');
/** Erases the sources of all payments at once, if all payments are removed. */
export const ERASE_ALL_SOURCES = `UPDATE payment_sources SET key = '${NO_KEY}', source = '${padded('')}'`;
export const FIND_SOURCE = 'SELECT rtrim(source) AS source FROM payment_sources WHERE key = ?';

/**
 * The sources of payments that are not final, in a table of their own whose rows all have one size and are never removed. So SQLite
 * overwrites a row where it lies, and no byte of an erased source stays in the file. If the source were in its payment's row, bytes would
 * stay, because a page that is split or joined leaves copies of rows between the others, whatever `secure_delete` says. Here that
 * pragma is needed once, for what the first page of this table leaves when it becomes two.
 */
export function createPaymentSources(database: Database): PaymentSources {
  const reuse = database.prepare(
    `UPDATE payment_sources SET key = ?, source = ?
     WHERE slot = (SELECT min(slot) FROM payment_sources WHERE key = '${NO_KEY}')`,
  );
  const append = database.prepare('INSERT INTO payment_sources (key, source) VALUES (?, ?)');
  const find = database.prepare(FIND_SOURCE);
  const erase = database.prepare(
    `UPDATE payment_sources SET key = '${NO_KEY}', source = '${padded('')}' WHERE key = ?`,
  );

  return {
    keep(key, source) {
      if (reuse.run(key, padded(source)).changes === 0) append.run(key, padded(source));
    },

    find: (key) => (find.get(key) as { source: string } | undefined)?.source ?? null,

    erase(key) {
      erase.run(key);
    },
  };
}
