import { isLoopback } from '../../platform/loopback.js';
import { codePointsIn } from '../../platform/printed-text.js';
import type { Action, PendingCharge } from '../ports/processor.js';

/**
 * A page needs an address, or a few values for the script of the processor. The service stores nothing of the action, so this limit is
 * generous.
 */
const MOST_MEMBERS = 20;
/** Lengths count code points, as all lengths of texts do. */
const LONGEST_NAME = 100;
const LONGEST_VALUE = 8_000;
/** The size of an action as JSON in UTF-8. A process remembers 1,000 actions. */
const MOST_BYTES = 16 * 1024;

/** The form of RFC 3339, whose hours end at 23. A leap second is refused, because the clocks of computers have none. */
const MOMENT = /^(\d{4}-\d{2}-\d{2})T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/** Moments with a year of four digits: with its offset a text may name one outside of them, which nothing here could show as RFC 3339 has it. */
const [FIRST_MS, LAST_MS] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

type Members = Readonly<Record<string, unknown>>;

/**
 * The members `until` and `action` of a reply that says pending, or the rule of the contract that they break. A problem quotes nothing of
 * the action, because it stands in the log.
 */
export function readPending({ until, action }: Members): Omit<PendingCharge, 'state'> | { readonly problem: string } {
  const untilMs = typeof until === 'string' ? readMoment(until) : undefined;
  if (untilMs === undefined) return { problem: 'its until is no time as RFC 3339 has it' };
  if (action === undefined) return { untilMs };
  const problem = problemOf(action);
  return problem === undefined ? { untilMs, action: action as Action } : { problem: `its action ${problem}` };
}

/** Milliseconds since the epoch. `Date.parse` takes 30 February for 2 March. */
function readMoment(text: string): number | undefined {
  const [, day = ''] = MOMENT.exec(text) ?? [];
  const midnight = Date.parse(`${day}T00:00:00Z`);
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(day)) return undefined;
  const ms = Date.parse(text.toUpperCase());
  return ms >= FIRST_MS && ms <= LAST_MS ? ms : undefined;
}

function problemOf(action: unknown): string | undefined {
  if (typeof action !== 'object' || action === null || Array.isArray(action)) return 'is no object';
  const members = Object.entries(action as Members);
  if (members.length > MOST_MEMBERS) return `has more than ${MOST_MEMBERS} members`;
  for (const [name, value] of members) {
    const nameLength = codePointsIn(name);
    if (nameLength < 1 || nameLength > LONGEST_NAME) return `has a name of 0, or more than ${LONGEST_NAME}, characters`;
    if (typeof value !== 'string') return 'has a member that is no text';
    if (codePointsIn(value) > LONGEST_VALUE) return `has a text of more than ${LONGEST_VALUE} characters`;
  }
  if (Buffer.byteLength(JSON.stringify(action)) > MOST_BYTES) return `is longer than ${MOST_BYTES} bytes`;
  const { url } = action as Partial<Action>;
  if (url !== undefined && !isPage(url)) return 'has a url that is neither https nor http on a loopback name';
  return undefined;
}

/** The payer's browser is sent there, so nothing may read it on the way, and it must be a page. */
function isPage(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
}
