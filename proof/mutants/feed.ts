// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

const POSTGRES = 'src/stores/postgres';
const EMBEDDED = 'src/stores/embedded';

/** A mistake in each condition of the feed of settlements, as in `mutants.ts`. */
export const FEED: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>> = {
  [`${POSTGRES}/payments/settlement-reads.ts`]: {
    'the bound passes transactions that are open':
      'if (of.writers.size > 0) return → if (of.writers.size > 1_000) return',
    'a prepared transaction does not delay the bound': 'name.startsWith(PREPARED) → name === PREPARED',
  },
  [`${POSTGRES}/payments/settlement-read-statements.ts`]: {
    'a table of another database delays the bound':
      '        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())\n → ',
    'readers of payments delay the bound': "AND mode = 'RowExclusiveLock' AND granted → AND granted",
    'the feed shows the settlements of every client, in PostgreSQL':
      'WHERE ($4::text IS NULL OR client = $4)${shown} → WHERE ($4::text IS NULL OR true)${shown}',
    'the feed begins anew after the last incarnation only':
      '(SELECT number FROM idempay.settlement_incarnations WHERE incarnation = $1), 0) → (SELECT max(number) FROM idempay.settlement_incarnations), 0)',
    'a start does not notice a clock that is behind': '`clock_timestamp() < greatest( → `clock_timestamp() > greatest(',
  },
  [`${POSTGRES}/connection/database-clock.ts`]: {
    'a clock that was set back is not noticed': 'if (isSetBack) this.wasSetBack = true; → ',
  },
  [`${POSTGRES}/connection/database-identity-statements.ts`]: {
    'an adopted database goes on with the feed':
      '${beginIncarnation(`EXISTS (SELECT FROM adopted WHERE ${REPLACES})`)} → ${beginIncarnation(`false`)}',
  },
  [`${POSTGRES}/payments/retention-statements.ts`]: {
    'a removal is not noted for readers of the feed, in PostgreSQL':
      "WHERE latest > coalesce(removed_until, '-infinity') → WHERE latest < '-infinity'",
  },
  [`${EMBEDDED}/payments/retention.ts`]: {
    'a removal is not noted for readers of the feed, in SQLite':
      'if (removed.length > 0) noteRemoved → if (removed.length < 0) noteRemoved',
  },
  [`${EMBEDDED}/payments/settlement-read-statements.ts`]: {
    'the feed shows the millisecond of the last commit':
      'settled_at < ?3 / 1000.0${read} → settled_at <= ?3 / 1000.0${read}',
    'the feed shows the settlements of every client, in SQLite': '(?4 IS NULL OR client = ?4) → (?4 IS NULL OR true)',
  },
  [`${EMBEDDED}/payments/settlement-reads.ts`]: {
    'the last settlement waits for another commit': 'if (read.isHeld === 1 && → if (read.isHeld === 2 &&',
  },
  'src/stores/shared/settlement-reads.ts': {
    'a cursor of another incarnation goes on':
      'after.incarnation !== incarnation) { → after.incarnation === incarnation && !incarnation) {',
    'a cursor passes the other settlements of its time':
      'return last === null || next === null ? { → return last === null || next !== undefined ? {',
    'a cursor names the settlement of another client':
      'return lower.slice(0, shared + 1) + ABOVE_ALL_KEYS.slice(shared + 1); → return lower;',
    'another incarnation begins no earlier than the place': 'BEGIN_EARLIER_US = 10 * 60_000_000 → BEGIN_EARLIER_US = 0',
    'a cursor behind a removal goes on': 'after.atUs < oldestUs) return → after.atUs < 0) return',
  },
};
