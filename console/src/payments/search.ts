import type { Filters } from './filters.js';
import { isWholeKey } from './payment.js';

const TRANSACTION_ID = /^TXN\d*$/i;
const KEY_DIGITS = /^[0-9a-f]{1,32}$/i;
/** The characters of an order number; the service judges the rest. */
const ORDER_NUMBER = /^[A-Za-z0-9\-._~:/@]{1,128}$/;
/** Such as `undefined` for a number that was lost, which the service refuses to list. */
const LOST_NUMBER = /(?:^|[-._~:/@])(?:undefined|null|NaN|None|false|nil|0{8}-(?:0{4}-){3}0{12})$/;
const MOST_CONTENT_CODE_POINTS = 500;
/** If nobody chose a day: how far back the content of payments is searched. */
const USUAL_DAYS = 30;
const DAY_MS = 86_400_000;

/** One list that the service is asked for. */
export interface Source {
  readonly looksIn: 'order numbers' | 'keys' | 'transaction ids' | 'content' | 'payments';
  readonly query: Readonly<Record<string, string>>;
}

export const textOf = ({ search, reference, find }: Filters): string => search || reference || find;

/** An order number, and no e-mail, which is one by its characters. */
export const mayBeClosed = (text: string): boolean => isOrderNumber(text) && !text.includes('@');

const isOrderNumber = (text: string): boolean => ORDER_NUMBER.test(text) && !LOST_NUMBER.test(text);

/**
 * The possible meanings of a typed text: an order number, or the beginning of a key or of a transaction id. For operators also a
 * description or a value of the metadata, in a range of days. Each is looked for, one after the other.
 */
export function sourcesOf(filters: Filters, seesAll: boolean, nowMs: number): readonly Source[] {
  const { search: text, reference, find, ...others } = filters;
  if (text === '') return [{ looksIn: 'payments', query: { reference, find, ...others } }];
  const sources: Source[] = [];
  // A refund has no order number and no content of its own: its payment has.
  const isOfRefunds = others.kind === 'refund';
  if (isOrderNumber(text) && !isOfRefunds)
    sources.push({ looksIn: 'order numbers', query: { ...others, reference: text } });
  if (TRANSACTION_ID.test(text)) sources.push({ looksIn: 'transaction ids', query: { ...others, find: text } });
  else if (isWholeKey(text) || KEY_DIGITS.test(text.replaceAll('-', ''))) {
    sources.push({ looksIn: 'keys', query: { ...others, find: text } });
  }
  if (seesAll && !isOfRefunds && [...text].length <= MOST_CONTENT_CODE_POINTS) {
    sources.push({
      looksIn: 'content',
      query: { ...others, content: text, from: others.from || usualFrom(others.to, nowMs) },
    });
  }
  return sources;
}

/** At the beginning of a day, so that it is the same while somebody types. */
function usualFrom(to: string, nowMs: number): string {
  const end = to === '' ? nowMs : Date.parse(to);
  const day = new Date((Number.isNaN(end) ? nowMs : end) - USUAL_DAYS * DAY_MS);
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}
