/** A key that the service generates (UUIDv7) or computes from a reference (UUIDv8). Other UUIDs are order numbers. */
const KEY = '(?:[0-9a-f]{8}-[0-9a-f]{4}-7|f[0-9a-f]{7}-[0-9a-f]{4}-8)[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}';
const WHOLE_KEY = new RegExp(`^${KEY}$`, 'i');
const NAMES = new RegExp(`${KEY}|\\bTXN\\d+`, 'gi');

/** The transaction ids of the service; processors have their own, which say nothing to us. */
export const OUR_TRANSACTION = /^TXN\d+$/i;

export const isWholeKey = (text: string): boolean => WHOLE_KEY.test(text);

/** Keys and transaction ids anywhere in a text, as the service writes them. */
export function idsWithin(text: string): readonly string[] {
  return (text.match(NAMES) ?? []).map((id) => (isWholeKey(id) ? id.toLowerCase() : id.toUpperCase()));
}
