import type { PaymentEvent } from '../../payments/ports/payment-history.js';
import type { AttemptNote, LookedUp } from '../../payments/values/attempt-note.js';
import type { Fence } from '../../payments/values/payment.js';

/** The first and the last events are kept: a payment that stays unknown is tried again every minute, for days. */
const FIRST_EVENTS = 8;
const LAST_EVENTS = 40;
/** Of a cause; UTF-8 may take three bytes for each. With it a line has at most 400 bytes, and all of them 20 kB. */
const MAX_CAUSE_LENGTH = 90;

const OMITTED = 'omitted ';
const LOOKED_UP_WORDS: Readonly<Record<LookedUp, string>> = {
  found: 'found',
  'no record': 'none',
  'no answer': 'failed',
};
const NO_LOOK_UP = '-';

/** Appends a line, as `idempay.with_event` does in PostgreSQL. */
export function withEvent(events: string | null, event: string): string {
  const lines = [...(events === null ? [] : events.split('\n')), event];
  if (lines.length <= FIRST_EVENTS + LAST_EVENTS) return lines.join('\n');
  const marker = lines[FIRST_EVENTS]?.startsWith(OMITTED) ? lines.splice(FIRST_EVENTS, 1)[0] : undefined;
  const surplus = Math.max(0, lines.length - FIRST_EVENTS - LAST_EVENTS);
  const omitted = surplus + Number(marker?.slice(OMITTED.length) ?? 0);
  lines.splice(FIRST_EVENTS, surplus, `${OMITTED}${omitted}`);
  return lines.join('\n');
}

/** A line begins with its time (milliseconds since the epoch) and the epoch; the store puts them before this. */
export function abandonedEvent({ owner }: Pick<Fence, 'owner'>, { lookedUp, sent, cause = '' }: AttemptNote): string {
  const end = sent ? 'unknown' : 'unsent';
  return `${end} ${lookedUp ? LOOKED_UP_WORDS[lookedUp] : NO_LOOK_UP} ${owner} ${shortened(cause)}`.trimEnd();
}

export function settledEvent({ owner }: Pick<Fence, 'owner'>, { lookedUp }: AttemptNote): string {
  return `settled ${lookedUp ? LOOKED_UP_WORDS[lookedUp] : NO_LOOK_UP} ${owner}`;
}

/** `owner`: the one that is overwritten; '' where it was given up. */
export const takenEvent = (owner: string): string => `taken ${owner}`;
export const resolvedEvent = (owner: string): string => `resolved ${owner}`;

/** On one line, and well-formed: a database refuses to keep anything else. */
function shortened(cause: string): string {
  const line = cause.replace(/\p{Cc}/gu, ' ').toWellFormed();
  return line.length <= MAX_CAUSE_LENGTH ? line : `${line.slice(0, MAX_CAUSE_LENGTH - 1).toWellFormed()}…`;
}

/** What was kept, oldest first, and how many were left out between the first ones and the last. */
export function readEvents(text: string | null): { events: readonly PaymentEvent[]; omitted: number } {
  const lines = text === null ? [] : text.split('\n');
  const marker = lines.find((line) => line.startsWith(OMITTED));
  return { events: lines.flatMap(eventIn), omitted: Number(marker?.slice(OMITTED.length) ?? 0) };
}

/** Nothing for a line that a later version wrote. */
function eventIn(line: string): PaymentEvent[] {
  const [, at, epoch, kind, rest = ''] = /^(\d+) (\d+) (\w+) ?(.*)$/s.exec(line) ?? [];
  const step = { at: Number(at), attempt: Number(epoch) };
  if (kind === 'taken') return [{ ...step, kind: 'taken over', from: rest || undefined }];
  if (kind === 'resolved') return [{ ...step, kind: 'resolved', from: rest || undefined }];
  const [, word, owner = '', cause] = /^(\S+) (\S*) ?(.*)$/s.exec(rest) ?? [];
  const [lookedUp] = (Object.keys(LOOKED_UP_WORDS) as LookedUp[]).filter((name) => LOOKED_UP_WORDS[name] === word);
  if (kind === 'settled') return [{ ...step, kind: 'settled', lookedUp, owner }];
  const given = { ...step, kind: 'given up', lookedUp, owner, cause: cause || undefined } as const;
  return kind === 'unknown' || kind === 'unsent' ? [{ ...given, sent: kind === 'unknown' }] : [];
}
