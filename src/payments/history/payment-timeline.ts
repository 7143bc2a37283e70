import type { PaymentEvent, PaymentLife } from '../ports/payment-history.js';
import type { ExecutionNote } from '../values/execution-note.js';
import { keyTimeOf } from '../values/key-time.js';
import { isComputed } from '../values/reference.js';
import { type NextStep, nextOf, type TimelineRules } from './payment-next.js';

/** A payment's whole life, as far as its row tells, and what happens next. */
export interface Timeline {
  readonly key: string;
  readonly state: PaymentLife['payment']['state'] | 'PENDING';
  readonly events: readonly TimelineEvent[];
  /** Events that were not kept, between the first ones and the last ones. */
  readonly omitted: number;
  readonly next: NextStep;
}

export const EVENT_NAMES = [
  'issued',
  'claimed',
  'charged',
  'not sent',
  'unknown',
  'looked up',
  'taken over',
  'settled',
  'resolved',
  'cancelled',
] as const;

export interface TimelineEvent {
  /** Milliseconds since the epoch. Undefined where only its place between its neighbours is known. */
  readonly at?: number | undefined;
  readonly event: (typeof EVENT_NAMES)[number];
  /** 1 is the first claim. */
  readonly execution?: number | undefined;
  /** Which process it was. */
  readonly process?: string | undefined;
  readonly detail?: string | undefined;
}

const LOOKED_UP: Readonly<Record<NonNullable<ExecutionNote['lookedUp']>, string>> = {
  found: 'the processor knows its outcome',
  'no record': 'the processor has no record of it',
  'no answer': 'the processor gave no clear answer',
};

/** A computed key is known without being issued. */
export const issuedEvents = (key: string): readonly TimelineEvent[] =>
  isComputed(key) ? [] : [{ at: keyTimeOf(key), event: 'issued' }];

/**
 * The row names its first owner until a takeover overwrites it; then the takeover event names the former owner. `client` is undefined for
 * those who see all payments. `newest`: the newest attempt at its reference, if it has one.
 */
export function timelineOf(
  life: PaymentLife,
  rules: TimelineRules,
  client: string | undefined,
  newest: number | undefined,
): Timeline {
  const { payment, omitted } = life;
  const events = client === undefined ? life.events : life.events.map(withoutCause);
  const owners = ownersOf(life);
  const of = (execution: number) => ({ execution, process: processOf(owners.get(execution)) });
  return {
    key: payment.key,
    state: payment.state,
    events: [
      ...issuedEvents(payment.key),
      payment.state === 'CANCELLED'
        ? { at: payment.claimedAt, event: 'cancelled', process: of(1).process }
        : { at: payment.claimedAt, event: 'claimed', ...of(1) },
      ...events.flatMap((event) => stepsOf(event, of(event.execution), of(event.execution - 1).process)),
      ...endOf(life, of(life.epoch)),
    ],
    omitted,
    next: nextOf(life, rules, client, newest),
  };
}

/** Causes are for operators: one of a connection names the address of the processor. */
function withoutCause(event: PaymentEvent): PaymentEvent {
  return event.kind === 'given up' ? { ...event, cause: undefined } : event;
}

/** The owner of each execution, by its epoch, as far as it was kept. */
function ownersOf({ epoch, owner, events }: PaymentLife): ReadonlyMap<number, string> {
  const owners = new Map<number, string>();
  for (const event of events) {
    if ('owner' in event) owners.set(event.execution, event.owner);
    // An execution that gave up has its owner in its own event.
    else if (event.from !== undefined) owners.set(event.execution - 1, event.from);
  }
  return owner === undefined ? owners : owners.set(epoch, owner);
}

/** An owner is named `process:execution`. */
function processOf(owner: string | undefined): string | undefined {
  return owner?.replace(/:\d+$/, '');
}

type Actor = Pick<TimelineEvent, 'execution' | 'process'>;

function stepsOf(event: PaymentEvent, actor: Actor, before: string | undefined): TimelineEvent[] {
  const { at } = event;
  switch (event.kind) {
    case 'taken over': {
      const detail = event.from === undefined ? undefined : `from process ${before}, which left it without an outcome`;
      return [{ at, event: 'taken over', ...actor, detail }];
    }
    case 'given up': {
      const { lookedUp, sent, cause } = event;
      if (lookedUp === 'no answer') return [lookUp(at, actor, lookedUp, cause)];
      const end: TimelineEvent = { at, event: sent ? 'unknown' : 'not sent', ...actor, detail: cause };
      return lookedUp ? [lookUp(undefined, actor, lookedUp), end] : [end];
    }
    case 'settled':
      return event.lookedUp ? [lookUp(undefined, actor, event.lookedUp)] : [];
    case 'resolved':
      return [];
  }
}

function lookUp(
  at: number | undefined,
  actor: Actor,
  lookedUp: NonNullable<ExecutionNote['lookedUp']>,
  cause?: string,
): TimelineEvent {
  const detail = cause === undefined ? LOOKED_UP[lookedUp] : `${LOOKED_UP[lookedUp]}: ${cause}`;
  return { at, event: 'looked up', ...actor, detail };
}

function endOf({ payment, events }: PaymentLife, actor: Actor): TimelineEvent[] {
  const { state, settledAt: at, reason, resolution } = payment;
  if (at === undefined || state === 'CANCELLED') return [];
  if (resolution !== undefined) {
    return [{ at, event: 'resolved', process: actor.process, detail: `${state}: ${resolution}` }];
  }
  const settled: TimelineEvent = { at, event: 'settled', ...actor, detail: reason ? `${state}: ${reason}` : state };
  const last = events.at(-1);
  const wasFound = last?.kind === 'settled' && last.lookedUp === 'found';
  return state === 'COMPLETED' && !wasFound ? [{ event: 'charged', ...actor }, settled] : [settled];
}
