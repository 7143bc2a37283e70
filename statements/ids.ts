/** A key that the service generates (UUIDv7) or computes from a reference (UUIDv8). Other UUIDs are order numbers. */
const KEY = '(?:[0-9a-f]{8}-[0-9a-f]{4}-7|f[0-9a-f]{7}-[0-9a-f]{4}-8)[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}';
const WHOLE_KEY = new RegExp(`^${KEY}$`, 'i');
const NAMES = new RegExp(`${KEY}|\\bTXN\\d+`, 'gi');

/** The end of each reference that `processor check` charges: `check!` in ASCII. A key has it by chance once in 2^48. */
export const CHECK_REFERENCE_END = '636865636b21';
/** The order of its charge that says what it is about. */
export const CHECK_ORDER = 'idempay-check';

export const isOfCheck = (id: string): boolean =>
  id === CHECK_ORDER || (isWholeKey(id) && id.toLowerCase().endsWith(CHECK_REFERENCE_END));

/** The transaction ids of the service; processors have their own, which say nothing to us. */
export const OUR_TRANSACTION = /^TXN\d+$/i;

export const isWholeKey = (text: string): boolean => WHOLE_KEY.test(text);

/** Keys and transaction ids anywhere in a text, as the service writes them. */
export function idsWithin(text: string): readonly string[] {
  return (text.match(NAMES) ?? []).map((id) => (isWholeKey(id) ? id.toLowerCase() : id.toUpperCase()));
}
