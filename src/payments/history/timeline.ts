import type { PaymentContext } from '../context.js';
import { RESOLVABLE_AFTER_CLAIM_MS, RESOLVABLE_AFTER_UNTIL_MS } from '../ports/ledger.js';
import type { PaymentEvent, PaymentLife } from '../ports/payment-history.js';
import { namesOf } from '../ports/processor.js';
import { shownProcessor } from '../processors/processor-url.js';
import { isComputed } from '../values/computed-key.js';
import { keyTimeOf } from '../values/idempotency-key.js';
import { ownerParts } from '../values/owner.js';
import { type ExecutionNote, isVisibleTo } from '../values/payment.js';

/** Undefined if `PaymentRecords.get` is: also for another client's key, with the same calls to the stores. */
export type FindTimeline = (key: string, client?: string) => Promise<Timeline | undefined>;

export function createFindTimeline(
  context: Pick<PaymentContext, 'keys' | 'history' | 'processor' | 'rules' | 'clock'>,
): FindTimeline {
  const { keys, history, processor, clock } = context;
  const { dedupMs, idempotencyTtlMs } = context.rules;
  const rules = { processors: namesOf(processor.traits), dedupMs, idempotencyTtlMs };

  async function withNext(life: PaymentLife, client: string | undefined): Promise<Timeline> {
    const { reference, client: keysClient } = life.payment;
    const newest = reference === undefined ? undefined : await history.newestAttempt(reference, keysClient);
    return timelineOf(life, rules, client, newest?.attempt);
  }

  return async function findTimeline(key, client) {
    const life = await history.findLife(key);
    if (life && isVisibleTo(client, life.payment.client)) return withNext(life, client);
    const looked = await keys.look(key, client);
    switch (looked.state) {
      case 'absent':
        return undefined;
      case 'final': {
        // It was claimed and settled after the row was looked for.
        const settled = await history.findLife(key);
        return settled && withNext(settled, client);
      }
      default: {
        const next =
          looked.state === 'locked'
            ? underWay(clock.now() + looked.remainingMs)
            : pay(isComputed(key) ? undefined : keyTimeOf(key) + rules.idempotencyTtlMs);
        return { key, state: 'PENDING', events: issuedEvents(key), omitted: 0, next };
      }
    }
  };
}

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
  'refunded',
  'not sent',
  'unknown',
  'pending',
  'looked up',
  'taken over',
  'settled',
  'resolved',
  'cancelled',
] as const;

export interface TimelineEvent {
  /** Milliseconds since the epoch. Undefined if only its place between its neighbours is known. */
  readonly at?: number | undefined;
  readonly event: (typeof EVENT_NAMES)[number];
  /** 1 is the first claim. */
  readonly execution?: number | undefined;
  /** The name of the process. */
  readonly process?: string | undefined;
  /** The client that asked for it: of a cancellation, a refund or a resolution, for a caller who sees all payments. */
  readonly by?: string | undefined;
  readonly detail?: string | undefined;
}

const LOOKED_UP: Readonly<Record<NonNullable<ExecutionNote['lookedUp']>, string>> = {
  found: 'the processor knows its outcome',
  'no record': 'the processor has no record of it',
  'no answer': 'the processor gave no clear answer',
};

/** A computed key is known without being issued. */
const issuedEvents = (key: string): readonly TimelineEvent[] =>
  isComputed(key) ? [] : [{ at: keyTimeOf(key), event: 'issued' }];

/**
 * The row names its first owner until a takeover overwrites it; then the takeover event names the former owner. `client` is undefined for a
 * caller who sees all payments. `newest`: the newest attempt at its reference, if it has one.
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
  const of = (execution: number): Actor => {
    const owner = owners.get(execution);
    const { process, by } = owner === undefined ? {} : ownerParts(owner);
    return { execution, process, ...(client === undefined && { by }) };
  };
  return {
    key: payment.key,
    state: payment.state,
    events: [
      ...issuedEvents(payment.key),
      payment.state === 'CANCELLED'
        ? { at: payment.claimedAt, event: 'cancelled', process: of(1).process, by: of(1).by }
        : { at: payment.claimedAt, event: 'claimed', ...of(1) },
      ...events.flatMap((event) => stepsOf(event, of(event.execution), of(event.execution - 1).process)),
      ...endOf(life, of(life.epoch)),
    ],
    omitted,
    next: nextOf(life, rules, client, newest),
  };
}

/** Causes are for callers who see all payments: one of a connection names the address of the processor. */
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

type Actor = Pick<TimelineEvent, 'execution' | 'process' | 'by'>;

function stepsOf(event: PaymentEvent, actor: Actor, before: string | undefined): TimelineEvent[] {
  const { at } = event;
  switch (event.kind) {
    case 'taken over': {
      const detail = event.from === undefined ? undefined : `from process ${before}, which left it without an outcome`;
      return [{ at, event: 'taken over', ...actor, detail }];
    }
    case 'given up':
      return event.pendingUntil === undefined ? givenUp(event, actor) : pendingSteps(event, event.pendingUntil, actor);
    case 'settled':
      return event.lookedUp ? [lookUp(undefined, actor, event.lookedUp)] : [];
    case 'resolved':
      return [];
  }
}

type GivenUp = Extract<PaymentEvent, { kind: 'given up' }>;

function givenUp({ at, lookedUp, sent, cause }: GivenUp, actor: Actor): TimelineEvent[] {
  if (lookedUp === 'no answer') return [lookUp(at, actor, lookedUp, cause)];
  const end: TimelineEvent = { at, event: sent ? 'unknown' : 'not sent', ...actor, detail: cause };
  return lookedUp ? [lookUp(undefined, actor, lookedUp), end] : [end];
}

/** The steps of an execution that left the payment pending. A look-up that says pending has found no outcome. */
function pendingSteps({ at, lookedUp }: GivenUp, until: number, actor: Actor): TimelineEvent[] {
  const pending: TimelineEvent = { at, event: 'pending', ...actor, detail: `until ${isoOf(until)}` };
  return lookedUp ? [{ event: 'looked up', ...actor, detail: 'the processor has it' }, pending] : [pending];
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
    return [{ at, event: 'resolved', process: actor.process, by: actor.by, detail: `${state}: ${resolution}` }];
  }
  const settled: TimelineEvent = { at, event: 'settled', ...actor, detail: reason ? `${state}: ${reason}` : state };
  const last = events.at(-1);
  const wasFound = last?.kind === 'settled' && last.lookedUp === 'found';
  return state === 'COMPLETED' && !wasFound
    ? [{ event: payment.refund ? 'refunded' : 'charged', ...actor }, settled]
    : [settled];
}

export const NEXT_STEPS = [
  'pay',
  'under way',
  'pending',
  'ending',
  'recovery',
  'operator',
  'replayed',
  'superseded',
  'expired',
  'cancelled',
] as const;

/** The next thing that happens with a payment. */
export interface NextStep {
  readonly what: (typeof NEXT_STEPS)[number];
  /** Until or from when, as the text says; milliseconds since the epoch. Undefined if it is not known. */
  readonly at?: number | undefined;
  /** From when on the service accepts a resolution of a payment that is PROCESSING; milliseconds since the epoch. Undefined if it never will. */
  readonly resolvableAt?: number | undefined;
  /** One plain sentence, with the moment in it: it is read alone, too. */
  readonly text: string;
}

export interface TimelineRules {
  /** The names of this service's processor: only its payments are taken over here. */
  readonly processors: readonly string[];
  /** From this age on a payment that may have been sent is an operator's to resolve. */
  readonly dedupMs: number;
  /** The same of one that was surely never sent. */
  readonly idempotencyTtlMs: number;
}

/** `until` is undefined for the key of a reference, with which it can be paid at any time. */
export const pay = (until: number | undefined): NextStep => ({
  what: 'pay',
  at: until,
  text:
    until === undefined
      ? 'It can be paid, by its reference at any time.'
      : `The key is issued, and can be paid with until ${isoOf(until)}.`,
});

const isoOf = (ms: number) => new Date(ms).toISOString();

const underWay = (until: number, resolvableAt?: number): NextStep => ({
  what: 'under way',
  at: until,
  resolvableAt,
  text: 'An execution is at work; another one may take the payment over when its lease has ended without an outcome.',
});

/** `client` is undefined for a caller who sees all payments. `newest`: the newest attempt at its reference, if it has one. */
export function nextOf(
  life: PaymentLife,
  rules: TimelineRules,
  client: string | undefined,
  newest: number | undefined,
): NextStep {
  const { payment, now } = life;
  if (payment.state !== 'PROCESSING') return afterEnd(life, newest);
  const operatorFrom = operatorFromOf(life, rules);
  if (life.leaseUntil > now) return underWay(life.leaseUntil, Math.max(life.leaseUntil, operatorFrom));
  const isOurs = rules.processors.includes(payment.processor);
  if (isOurs && (payment.ending || payment.pendingUntil !== undefined)) return openNext(life, operatorFrom);
  if (operatorFrom <= now) {
    return {
      what: 'operator',
      at: operatorFrom,
      resolvableAt: operatorFrom,
      text: isOurs
        ? `An operator may resolve it since ${isoOf(operatorFrom)}. Recovery still looks it up at the processor.`
        : `An operator may resolve it since ${isoOf(operatorFrom)}; only a service with the processor ${shownProcessor(payment.processor, client)} looks it up.`,
    };
  }
  if (!isOurs) {
    return {
      what: 'recovery',
      resolvableAt: operatorFrom,
      text: `Only a service with the processor ${shownProcessor(payment.processor, client)} can continue it.`,
    };
  }
  const operator = Number.isFinite(operatorFrom)
    ? `, and an operator may resolve it from ${isoOf(operatorFrom)} on`
    : '';
  return {
    what: 'recovery',
    at: life.recoverAt,
    resolvableAt: operatorFrom,
    text: `Recovery asks the processor again at ${isoOf(life.recoverAt)}, a repeat with its ${payment.refund ? 'name' : 'key'} at once${operator}.`,
  };
}

/** The next step of a payment that waits at the processor, or is ended there. */
function openNext({ payment, now, recoverAt }: PaymentLife, operatorFrom: number): NextStep {
  const operator =
    operatorFrom <= now
      ? `An operator may resolve it since ${isoOf(operatorFrom)}.`
      : `An operator may resolve it from ${isoOf(operatorFrom)} on.`;
  if (payment.ending) {
    return {
      what: 'ending',
      at: recoverAt,
      resolvableAt: operatorFrom,
      text: `A cancellation ends it: recovery asks the processor for that again at ${isoOf(recoverAt)}, and a repeated cancellation at once. ${operator}`,
    };
  }
  const until = payment.pendingUntil ?? now;
  const end = until > now ? `is expected by ${isoOf(until)}` : `was expected by ${isoOf(until)}`;
  return {
    what: 'pending',
    at: until,
    resolvableAt: operatorFrom,
    text: `It waits at the processor, ${payment.refund ? 'which gives it back' : 'for its payer or for a bank'}, and its end ${end}. Recovery asks again at ${isoOf(recoverAt)}, a repeat at once. ${operator}`,
  };
}

/** The answer that a repeat of an ended payment gets. */
function afterEnd({ payment, now, expiresAt }: PaymentLife, newest: number | undefined): NextStep {
  const { state, reference, attempt } = payment;
  if (state === 'CANCELLED') return { what: 'cancelled', text: 'It is closed: no charge will be sent for it.' };
  if (attempt !== undefined && newest !== undefined && newest > attempt) {
    return {
      what: 'superseded',
      text: `It is final, and attempt ${newest} was made after it: a repeat of attempt ${attempt} is refused.`,
    };
  }
  if (payment.refund) {
    return {
      what: 'replayed',
      text: 'It is final: a repeat with its name gets this outcome for as long as it is kept.',
    };
  }
  if (reference !== undefined) {
    const asLong = state === 'DECLINED' ? 'until a later attempt is made' : 'for as long as it is kept';
    return {
      what: 'replayed',
      text: `It is final: a repeat with its reference and attempt gets this outcome ${asLong}.`,
    };
  }
  return expiresAt !== undefined && expiresAt > now
    ? {
        what: 'replayed',
        at: expiresAt,
        text: `It is final: a repeat with its key gets this outcome again until ${isoOf(expiresAt)}.`,
      }
    : { what: 'expired', at: expiresAt, text: 'It is final, and its key has expired: a repeat is refused.' };
}

/** As the ledger judges a resolution. */
function operatorFromOf(life: PaymentLife, { idempotencyTtlMs, dedupMs }: TimelineRules): number {
  const { pendingUntil } = life.payment;
  if (pendingUntil !== undefined) {
    return Math.min(pendingUntil + RESOLVABLE_AFTER_UNTIL_MS, life.resolutionCountsFrom + RESOLVABLE_AFTER_CLAIM_MS);
  }
  if (life.chargedUnknownAmount) return life.resolutionCountsFrom;
  return life.resolutionCountsFrom + (life.unsent ? idempotencyTtlMs : dedupMs);
}
