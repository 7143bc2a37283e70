import type { Filters } from './filters.js';
import { isWholeKey } from './payment.js';

/** What a text that was typed is looked for as. */
export type Search = Pick<Filters, 'reference' | 'find'>;

const TRANSACTION_ID = /^TXN\d*$/i;
const KEY_DIGITS = /^[0-9a-f]{1,32}$/i;

/** Whether it is one, or how one begins. */
export const isTransactionId = (text: string): boolean => TRANSACTION_ID.test(text);

export const textOf = ({ reference, find }: Search): string => reference || find;

/**
 * What a text may be, the likeliest first: an order number, unless its form says that it is a key or a transaction id. An order number
 * may have that form too (`TXN10023`).
 */
export function readingsOf(text: string): readonly Search[] {
  const ofReference = { reference: text, find: '' };
  const ofBeginning = { reference: '', find: text };
  if (text === '') return [ofBeginning];
  if (isTransactionId(text) || isWholeKey(text)) return [ofBeginning, ofReference];
  // Digits alone are the beginning of a key as well.
  return KEY_DIGITS.test(text.replaceAll('-', '')) ? [ofReference, ofBeginning] : [ofReference];
}

/** Who chose the other reading keeps it while typing on. */
export function searchFor(text: string, shown: Search): Search {
  const readings = readingsOf(text);
  const isKept = ({ reference, find }: Search) =>
    reference === '' ? shown.find !== '' && find.startsWith(shown.find) : reference === shown.reference;
  return readings.find(isKept) ?? readings[0] ?? { reference: '', find: '' };
}

/** What the text of the search may be as well. */
export function otherReadingOf(shown: Search): Search | undefined {
  return readingsOf(textOf(shown)).find(({ reference, find }) => reference !== shown.reference && find !== shown.find);
}
