import type { Verdict } from '../../payments/history/resolve.js';
import type { Prefix, Selection } from '../../payments/ports/payment-history.js';
import { MOST_METADATA_VALUE, textProblem } from '../../payments/values/content.js';
import { readKeyHeader } from '../../payments/values/idempotency-key.js';
import { mayBeListed } from '../../payments/values/reference.js';
import { codePointsIn, isPrinted } from '../../platform/printed-text.js';
import { publicErrors } from '../errors/public-errors.js';
import { type JsonBody, membersOf } from '../requests/json-body.js';
import { refusalOf } from './reference-request.js';

export const STATES = ['PROCESSING', 'COMPLETED', 'DECLINED', 'CANCELLED'] as const;
export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 500;
const MAX_REASON_CODE_POINTS = 500;
const DAY_MS = 86_400_000;
const DAY_LENGTH = '2026-11-20'.length;
/** An export has at most a year. */
export const MOST_DAYS = 366;

const WHOLE_NUMBER = /^[1-9]\d{0,5}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
/** RFC 3339: a moment always says its offset. */
const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i;
const ID_PREFIX = /^TXN\d{0,40}$/i;
const TRANSACTION_ID = /^TXN\d{1,40}$/;
const KEY_PREFIX = /^[0-9a-f]{1,32}$/;

export const LIST_PARAMETERS = [
  'find',
  'reference',
  'content',
  'state',
  'processor',
  'from',
  'to',
  'limit',
  'cursor',
] as const;
export const EXPORT_PARAMETERS = ['day', 'lastDay', 'processor'] as const;

export type ListParameter = (typeof LIST_PARAMETERS)[number];
export type ListQuery = { readonly [name in ListParameter]?: string };

/** The key in a path, in any case, as in the header of a payment. Throws `notFound`, a 404, for text that is no key. */
export function keyIn({ key }: { key: string }, notFound = publicErrors.paymentNotFound): string {
  const header = readKeyHeader(key);
  if (header.state !== 'present') throw notFound();
  return header.key;
}

/**
 * What a list asks for; throws the 400 that names the parameter. An empty one counts as absent, except for `reference` and `content`: a
 * page that asks for the payments of its order, and has lost the number, must not get those of everybody. `client` is undefined for those
 * who see all payments, and only they search in content: no index keeps the search of a client away from the payments of others.
 */
export function readSelection(query: ListQuery, client?: string): Selection {
  if (query.content !== undefined && client !== undefined) throw publicErrors.scopeMissing(['operations']);
  const selection: Selection = {
    client,
    find: query.find ? prefixOf(query.find) : undefined,
    state: query.state ? stateNamed(query.state) : undefined,
    processor: query.processor ? processorNamed(query.processor) : undefined,
    reference: query.reference === undefined ? undefined : referenceOf(query.reference),
    content: query.content === undefined ? undefined : contentTextOf(query.content),
    claimedFrom: query.from ? momentOf('from', query.from) : undefined,
    claimedTo: query.to ? momentOf('to', query.to) : undefined,
    before: query.cursor ? cursorOf(query.cursor) : undefined,
    limit: query.limit ? limitOf(query.limit) : DEFAULT_LIMIT,
  };
  const { content, claimedFrom, claimedTo } = selection;
  // No index has the content: a search goes through the payments of a time that somebody chose.
  if (content !== undefined && !(claimedFrom !== undefined && claimedFrom < (claimedTo ?? Number.POSITIVE_INFINITY))) {
    throw publicErrors.invalidRequest(
      "'content' is looked for from a day on: 'from' is needed, and must be before 'to'.",
    );
  }
  return selection;
}

/** The whole value of a member, so it is as long as one may be. */
function contentTextOf(text: string): string {
  const problem = textProblem("'content'", text, MOST_METADATA_VALUE, 1);
  if (problem !== undefined) throw publicErrors.invalidRequest(problem);
  return text;
}

/** The days of an export, UTC, as [from, to) in milliseconds since the epoch, and their name in that of a file. */
export function readDays(
  day: string | undefined,
  lastDay: string | undefined,
): { name: string; from: number; to: number } {
  const from = day !== undefined && DAY.test(day) ? startOfDay(day) : undefined;
  if (day === undefined || from === undefined) {
    throw publicErrors.invalidRequest("'day' must be a day in UTC such as 2026-11-20.");
  }
  if (!lastDay) return { name: day, from, to: from + DAY_MS };
  const last = DAY.test(lastDay) ? startOfDay(lastDay) : undefined;
  if (last === undefined || last < from || last - from >= MOST_DAYS * DAY_MS) {
    throw publicErrors.invalidRequest(
      `'lastDay' must be a day in UTC such as 2026-11-30, not before 'day', and at most ${MOST_DAYS} days may be exported at once.`,
    );
  }
  return { name: last === from ? day : `${day}-to-${lastDay}`, from, to: last + DAY_MS };
}

/** What an operator found out; throws the 400 that names the member. */
export function readVerdict(body: JsonBody): Verdict {
  const members = membersOf(body);
  if ('problem' in members) throw publicErrors.invalidBody(members.problem);
  const outcome = members.get('outcome');
  const state = outcome?.type === 'string' ? inUpperCase(outcome.text) : undefined;
  if (state !== 'COMPLETED' && state !== 'DECLINED') {
    throw publicErrors.invalidBody('\'outcome\' must be "completed" or "declined".');
  }
  const member = members.get('reason');
  const reason = member?.type === 'string' ? member.text.trim() : '';
  const length = codePointsIn(reason);
  if (length < 1 || length > MAX_REASON_CODE_POINTS || !isPrinted(reason)) {
    throw publicErrors.invalidBody(
      `'reason' must be a string of 1 to ${MAX_REASON_CODE_POINTS} characters on one line: how the outcome was found out.`,
    );
  }
  return { state, reason };
}

/** ASCII only: the platform would also take the dotless i of "declıned" for an I. */
function inUpperCase(text: string): string {
  return /^[a-z]+$/i.test(text) ? text.toUpperCase() : text;
}

function stateNamed(text: string): Selection['state'] {
  const state = STATES.find((known) => known === inUpperCase(text));
  if (!state) throw publicErrors.invalidRequest(`'state' must be one of ${STATES.join(', ')}.`);
  return state;
}

/** Ignores surrounding white space and dashes, which copied parts of keys may have. */
function prefixOf(text: string): Prefix {
  const trimmed = text.trim();
  if (ID_PREFIX.test(trimmed)) return { transactionId: trimmed.toUpperCase() };
  const keyDigits = trimmed.toLowerCase().replaceAll('-', '');
  if (KEY_PREFIX.test(keyDigits)) return { keyDigits };
  throw publicErrors.invalidRequest(
    "'find' must be the beginning of a key (hexadecimal digits and dashes) or of a transaction id (TXN and digits).",
  );
}

/** Names of processors are printable text; a database refuses some other texts. */
function processorNamed(text: string): string {
  if (isPrinted(text)) return text;
  throw publicErrors.invalidRequest("'processor' must be the name of a processor, as a payment shows it.");
}

function momentOf(name: string, text: string): number {
  // In a query an unescaped plus sign arrives as a space.
  const plain = text.replace(' ', '+');
  const isWritten = DAY.test(plain) || MOMENT.test(plain);
  const ms = isWritten && startOfDay(plain.slice(0, DAY_LENGTH)) !== undefined ? Date.parse(plain) : Number.NaN;
  if (Number.isNaN(ms)) {
    throw publicErrors.invalidRequest(`'${name}' must be a day (2026-11-20) or a moment (2026-11-20T13:00:00Z).`);
  }
  return ms;
}

/** Undefined for a day that does not exist, which `Date.parse` moves into the next month. */
function startOfDay(day: string): number | undefined {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day) ? ms : undefined;
}

function referenceOf(text: string): string {
  if (mayBeListed(text)) return text;
  throw refusalOf(text);
}

/** Where a page begins: the transaction id at which the one before ended, in a form that nobody takes for one. */
export function cursorFor(transactionId: string): string {
  return Buffer.from(transactionId).toString('base64url');
}

function cursorOf(text: string): string {
  const transactionId = Buffer.from(text, 'base64url').toString('latin1');
  if (TRANSACTION_ID.test(transactionId) && cursorFor(transactionId) === text) return transactionId;
  throw publicErrors.invalidRequest("'cursor' must come from the Link header of the page before.");
}

function limitOf(text: string): number {
  const limit = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw publicErrors.invalidRequest(`'limit' must be a whole number from 1 to ${MAX_LIMIT}.`);
}
