import { RESOLVABLE_AFTER_CLAIM_MS, RESOLVABLE_AFTER_UNTIL_MS } from '#idempay/payments/ports/ledger.js';
import { keyTimeOf, lowestKeyAt } from '#idempay/payments/values/idempotency-key.js';
import { UNKNOWN_FINGERPRINT } from '#idempay/payments/values/money.js';
import type { EndingScope } from '#idempay/payments/values/payment.js';
import { StatementRefused } from '#idempay/stores/postgres/connection/postgres.js';
import type { PaymentRow } from '#idempay/stores/postgres/payments/payment-row.js';
import { type HistoryRow, isPending } from '#idempay/stores/shared/payment-rows.js';
import { areReferencesLookedUp, canKnowLostRows, isAfterLoss, isShort, mayBeLost } from './loss.js';
import type { ModelledStatement, Statements, Tables, Values } from './postgres-server.js';
import { ageOfHour, currentHour, settledAfter } from './retention-statements.js';

/** A row of the payments' table, as both databases have it: times are milliseconds since the epoch. */
export type StoredPayment = Omit<PaymentRow & HistoryRow, 'remaining_ms' | 'age_ms' | 'repeatable'> & {
  readonly lease_until: number;
  readonly recover_at: number;
  readonly settled_hour: number | null;
  readonly events: string | null;
  /** The amount of a refund in minor units. */
  readonly refund_units: number | null;
  /** In PostgreSQL: a mark of an earlier one does not count. */
  readonly generation?: number;
  /** In SQLite: by the clock of the process, when it sent the claim, which may have waited for the store since. */
  readonly claimed_at_wall?: number;
};
export type State = StoredPayment['state'];
/** As `claim` and `claim_in_full` send it, which has the columns from `reference` on. */
const CLAIM_COLUMNS = [
  ...['key', 'transaction_id', 'amount', 'currency', 'fingerprint', 'client', 'processor', 'owner', 'leaseMs'],
  ...['claimBefore', 'outcome', 'reason', 'ttlMs'],
  ...['reference', 'attempt', 'previousKey', 'lateMs', 'waitMs', 'source', 'content', 'shortLossMs'],
];
/** The parameter with the former names of the processor, which are the same for all rows. */
const FORMER_NAMES = 13;
type NewRow = Pick<StoredPayment, 'key' | 'transaction_id' | 'amount' | 'currency' | 'fingerprint' | 'client'> &
  Pick<StoredPayment, 'processor' | 'owner' | 'reason' | 'reference' | 'attempt' | 'source' | 'content'> &
  Readonly<Record<'leaseMs' | 'claimBefore', number>> &
  Readonly<Record<'ttlMs' | 'lateMs' | 'waitMs' | 'shortLossMs', number | null>> & {
    readonly outcome: State | null;
    readonly previousKey: string | null;
  };
type Cancelled = [
  ...[key: string, transactionId: string, client: string | null, owner: string, claimBefore: number, ttlMs: number],
  ...[reference: string | null, attempt: number | null, previousKey: string | null, lateMs: number | null],
  ...[waitMs: number, isLookedUp: boolean, processor: string, formerNames: readonly string[]],
];
type Explained = [
  ...[key: string, previousKey: string | null, lateMs: number | null, waitMs: number],
  ...[processor: string, formerNames: readonly string[], shortLossMs: number],
];
export type Fenced = readonly [key: string, epoch: number, owner: string, ...more: unknown[]];
type TakeOver = readonly [owner: string, leaseMs: number, processors: readonly string[], isPending?: boolean];

/** The n-th row of values that are columns. */
function rowOf<Row>(values: Values, index: number): Row {
  return values.map((column) => (column as unknown[])[index]) as Row;
}

/** Compare-and-set on (key, epoch, owner, PROCESSING). */
export function fencedUpdate(
  set: (row: StoredPayment, values: Fenced, now: number, tables: Tables) => Partial<StoredPayment>,
): ModelledStatement {
  return (tables, values, at) =>
    at.flatMap((now, index) => {
      const fenced = rowOf<Fenced>(values, index);
      const [key, epoch, owner] = fenced;
      const row = tables.payments.get(key);
      if (row?.state !== 'PROCESSING' || row.epoch !== epoch || row.owner !== owner) return [];
      const written = { ...row, ...set(row, fenced, now, tables) };
      tables.payments.set(key, written);
      return [{ key, owner, expires_at: floor(written.expires_at) }];
    });
}

export function settled(
  row: StoredPayment,
  fenced: Fenced,
  now: number,
  { retention }: Tables,
): Partial<StoredPayment> {
  const [, , , state, reason, ttlMs, chargeId] = fenced;
  return {
    processor_id: (chargeId as string | null) ?? row.processor_id,
    ...{ state: state as State, reason: reason as string | null, source: null },
    ...{ settled_at: now, settled_hour: currentHour(retention).hour, expires_at: now + Number(ttlMs) },
  };
}

/** As `idempay.with_event` does it. */
function withEvent(events: string | null, event: object): string {
  const kept = JSON.parse(events ?? '[]') as { omitted?: number }[];
  const omitted = kept[8]?.omitted;
  if (omitted !== undefined) kept.splice(8, 2, { omitted: omitted + 1 });
  else if (kept.length === 48) kept.splice(8, 1, { omitted: 1 });
  return JSON.stringify([...kept, event]);
}

/** `event`: as JSON, without its time and its epoch. */
export const noted = ({ events, epoch }: StoredPayment, now: number, event: unknown) =>
  withEvent(events, { at: floor(now), execution: epoch, ...JSON.parse(event as string) });

/** An epoch that begins now, with the owner that is overwritten. */
const begun = ({ events, epoch, owner }: StoredPayment, now: number, kind: 'taken over' | 'resolved') =>
  withEvent(events, { at: floor(now), execution: epoch + 1, kind, from: owner || undefined });

/** A mark of an epoch that was never sent counts only if nothing was lost since: that may have been sent. */
const unsentOfNow = ({ loss }: Tables, { generation, unsent_epoch }: StoredPayment) =>
  generation === loss.generation ? unsent_epoch : null;

/** The same for a takeover: a mark since a loss counts only while the processor still has to know the charge of the lost row. */
function unsentBefore(tables: Tables, row: StoredPayment): number | null {
  return (row.unsent_epoch ?? 0) > 0 || areReferencesLookedUp(tables) ? unsentOfNow(tables, row) : null;
}

const NO_REFUND = {
  refund_of: null,
  refund_name: null,
  refund_reason: null,
  refund_charge_id: null,
  refund_units: null,
  refunded: null,
} as const;
/** The columns of a row that no execution has taken over, given up or settled. */
export const NOT_OPEN = { pending_until: null, ending: null, processor_id: null, ...NO_REFUND } as const;
const SHORTEST_QUESTION_MS = 5_000;
const LONGEST_QUESTION_MS = 3_600_000;
const SOONEST_QUESTION_MS = 1_000;

/** The time of the next question about a pending payment. */
function nextQuestion({ claimed_at, pending_until }: StoredPayment, now: number): number {
  const quarter = Math.max((now - claimed_at) / 4, SHORTEST_QUESTION_MS);
  const next = now + Math.min(quarter, LONGEST_QUESTION_MS);
  return pending_until !== null && pending_until > now ? Math.min(next, questionAt(pending_until, now)) : next;
}

const questionAt = (untilMs: number, now: number) => Math.max(untilMs, now + SOONEST_QUESTION_MS);

/** How old a payment must be before an operator decides. */
function resolvableAfterMs(tables: Tables, row: StoredPayment, dedupMs: number, idempotencyTtlMs: number): number {
  const mark = unsentOfNow(tables, row);
  if (mark === row.epoch) return idempotencyTtlMs;
  return mark === 0 ? 0 : dedupMs;
}

function takeOver(
  tables: Tables,
  row: StoredPayment | undefined,
  [owner, leaseMs, processors, alsoPending = false]: TakeOver,
  now: number,
  more: Partial<StoredPayment> = {},
): PaymentRow[] {
  if (row?.state !== 'PROCESSING' || row.lease_until > now || !processors.includes(row.processor as string)) return [];
  if (isPending(row) && !alsoPending) return [];
  const leaseUntil = now + leaseMs;
  const taken = {
    ...{ ...row, epoch: row.epoch + 1, owner, lease_until: leaseUntil, recover_at: leaseUntil },
    ...{ unsent_epoch: unsentBefore(tables, row), generation: tables.loss.generation },
    events: begun(row, now, 'taken over'),
    ...more,
  };
  tables.payments.set(row.key, taken);
  return [columnsOf(tables, taken, now)];
}

/** Rows that another statement is changing are left alone (`SKIP LOCKED`). */
function takeOverDue(order: (one: StoredPayment, other: StoredPayment) => number): ModelledStatement {
  return (tables, values, [now], isLocked) => {
    const [owner, leaseMs, processor, limit] = values as unknown as [string, number, string, number];
    return [...tables.payments.values()]
      .filter((row) => row.state === 'PROCESSING' && !isPending(row) && row.recover_at <= now && row.lease_until <= now)
      .filter((row) => row.processor === processor && !isLocked(row.key))
      .sort(order)
      .slice(0, limit)
      .flatMap((row) => takeOver(tables, row, [owner, leaseMs, [processor]], now));
  };
}

/** Payments that are PROCESSING and pending, or not pending, oldest first, up to a limit. */
function oldestUnderWay({ payments }: Tables, limit: number, arePending = false): StoredPayment[] {
  return [...payments.values()]
    .filter((row) => row.state === 'PROCESSING' && isPending(row) === arePending)
    .sort((one, other) => (one.transaction_id < other.transaction_id ? -1 : 1))
    .slice(0, limit);
}

/** With a state of its end, and the time until which it is repeated. */
const endedAt = (now: number, ttlMs: number | null, { retention }: Tables) => {
  return { expires_at: now + Number(ttlMs), settled_at: now, settled_hour: currentHour(retention).hour, source: null };
};

function isTurnAfter({ payments, retention }: Tables, previousKey = '', lateMs: number | null = null): boolean {
  const { state, settled_hour } = payments.get(previousKey) ?? {};
  return state === 'DECLINED' && (lateMs === null || (ageOfHour(retention, settled_hour) ?? Infinity) < lateMs);
}

const mayInsert = ({ payments, retention }: Tables, key: string, now: number, claimBefore: number) =>
  now <= claimBefore && key >= retention.keysBefore && !payments.has(key);

/** The key was generated before, at the latest. */
const claimedAt = ({ loss }: Tables, key: string, now: number) =>
  key < loss.lookUpBefore ? Math.min(now, keyTimeOf(key)) : now;

/** True if the statement permits the attempt to insert its row. */
function mayClaim(tables: Tables, row: NewRow, formerNames: readonly string[], now: number): boolean {
  const { key, processor, reference, claimBefore, previousKey, lateMs, waitMs, shortLossMs } = row;
  if (!tables.processors.includes(processor as string) || !mayInsert(tables, key, now, claimBefore)) return false;
  if (previousKey && !isTurnAfter(tables, previousKey, lateMs)) return false;
  if (!mayBeLost(tables, key)) return true;
  const isLong = reference !== null && !isShort(tables, Number(shortLossMs));
  const isTime = !isLong || isAfterLoss(tables, Number(waitMs), now);
  return isTime && canKnowLostRows(tables, processor, formerNames);
}

/** A payment whose row may be lost is never settled by its claim. */
function claimed(tables: Tables, row: NewRow, now: number): StoredPayment {
  const {
    leaseMs,
    claimBefore: _,
    outcome,
    ttlMs,
    previousKey: _1,
    lateMs: _2,
    waitMs: _3,
    shortLossMs: _4,
    ...columns
  } = row;
  const isLosable = mayBeLost(tables, row.key);
  const end = isLosable ? null : outcome;
  return {
    ...{ ...columns, reason: end && row.reason, epoch: 1, lease_until: now + leaseMs, recover_at: now + leaseMs },
    ...{ claimed_at: claimedAt(tables, row.key, now), generation: tables.loss.generation },
    ...{ ...NOT_OPEN, unsent_epoch: null, resolution: null, events: null, state: end ?? 'PROCESSING' },
    claimed_after_loss: isLosable || null,
    ...(end ? endedAt(now, ttlMs, tables) : { expires_at: null, settled_at: null, settled_hour: null }),
  };
}

function claim(tables: Tables, values: Values, at: readonly number[]) {
  const { payments } = tables;
  const inserted: (StoredPayment & { readonly ageMs: number })[] = [];
  const ids = new Set([...payments.values()].map(({ transaction_id }) => transaction_id));
  const formerNames = values[FORMER_NAMES] as readonly string[];
  const ofRows = values.toSpliced(FORMER_NAMES, 1);
  for (const [index, now] of at.entries()) {
    const columns = CLAIM_COLUMNS.map((name, column) => [
      name,
      (ofRows[column] as unknown[] | undefined)?.[index] ?? null,
    ]);
    const sent = Object.fromEntries(columns) as NewRow;
    const { key, transaction_id } = sent;
    if (!mayClaim(tables, sent, formerNames, now)) continue;
    if (ids.has(transaction_id)) {
      for (const before of inserted) payments.delete(before.key);
      throw new StatementRefused('23505', new Error(`${transaction_id} is there already`));
    }
    const row = claimed(tables, sent, now);
    payments.set(key, row);
    ids.add(transaction_id);
    inserted.push({ ...row, ageMs: now - row.claimed_at });
  }
  return inserted.map(({ owner, expires_at, claimed_after_loss, ageMs }) => {
    return { owner, may_be_lost: claimed_after_loss === true, age_ms: ageMs, expires_at: floor(expires_at) };
  });
}

/** The statements of `ledger-statements.ts` and `payment-history-statements.ts`. */
export const PAYMENT_STATEMENTS: Statements = {
  claim,
  claim_in_full: claim,

  processor_names: ({ processors, loss }) => [{ processors, processors_before_loss: loss.processorsBefore }],

  register_processor(tables, [name]: [string]) {
    const used = tables.processors;
    const isOneKind = name === 'simulated' ? used.length === 0 : used.length !== 1 || used[0] !== 'simulated';
    if (used.includes(name) || !isOneKind) return [];
    tables.processors = [...used, name];
    return [{ processors: tables.processors }];
  },

  cancel(tables, values: Cancelled, [now]) {
    const { payments, retention, loss } = tables;
    const [key, transaction_id, client, owner, claimBefore, ttlMs, reference, attempt, ...turn] = values;
    const [previousKey, lateMs, waitMs, isLookedUp, processor, formerNames] = turn;
    if (now > claimBefore || key < retention.keysBefore || payments.has(key)) return [];
    if (previousKey && !isTurnAfter(tables, previousKey, lateMs)) return [];
    const canKnow = canKnowLostRows(tables, processor, formerNames);
    if (mayBeLost(tables, key) && !(isLookedUp && canKnow && isAfterLoss(tables, waitMs, now))) return [];
    payments.set(key, {
      ...{ key, transaction_id, amount: null, currency: null, fingerprint: '', client, processor: null, owner },
      ...{ reference, attempt, epoch: 1, lease_until: 0, recover_at: now, claimed_at: now, state: 'CANCELLED' },
      ...{
        unsent_epoch: null,
        claimed_after_loss: null,
        resolution: null,
        events: null,
        reason: null,
        content: null,
        ...NOT_OPEN,
        generation: loss.generation,
        ...endedAt(now, ttlMs, tables),
      },
    });
    return [{ key }];
  },

  explain_turn(tables, values: Explained, [now]) {
    const { payments, retention, loss } = tables;
    const [key, previousKey, lateMs, waitMs, processor, formerNames, shortLossMs] = values;
    const previous = payments.get(previousKey ?? '');
    const { settled_hour } = previous ?? {};
    const state = previous && isPending(previous) ? 'PENDING' : (previous?.state ?? null);
    const inTime = lateMs === null || (ageOfHour(retention, settled_hour) ?? Infinity) < lateMs;
    const isOver = loss.adoptedAt === null || isShort(tables, shortLossMs);
    const remainingMs = isOver ? 0 : Number(loss.adoptedAt) + waitMs - now;
    const canKnow = canKnowLostRows(tables, processor, formerNames);
    return [{ mayBeLost: mayBeLost(tables, key), canKnow, previous: state, inTime, remainingMs }];
  },

  ended_unclaimed({ payments, retention, loss }, [key, lifeMs, client]: [string, number, string | null], [now]) {
    const row = payments.get(key);
    const isSeen = row && (client === null || row.client === null || row.client === client);
    const isBefore = key < retention.keysBefore || key < loss.lookUpBefore;
    return !isSeen && !isBefore && key < lowestKeyAt(now - lifeMs) ? [{}] : [];
  },

  take_over(tables, [key, ...how]: [string, ...TakeOver], [now]) {
    return takeOver(tables, tables.payments.get(key), how, now);
  },

  begin_ending(tables, values: [string, string, number, readonly string[], EndingScope, boolean], [now]) {
    const [key, owner, leaseMs, processors, scope, onlyUnsent] = values;
    const row = tables.payments.get(key);
    if (!row || (onlyUnsent && unsentOfNow(tables, row) !== row.epoch)) return [];
    const ending = row.ending === 'order' ? row.ending : scope;
    return takeOver(tables, row, [owner, leaseMs, processors, true], now, { ending });
  },

  /** Rows that another statement is changing are left alone (`SKIP LOCKED`). */
  due_pending(tables, [processor, limit]: [string, number], [now], isLocked) {
    return [...tables.payments.values()]
      .filter((row) => isPending(row) && row.recover_at <= now && row.lease_until <= now)
      .filter((row) => row.processor === processor && !isLocked(row.key))
      .sort((one, other) => one.recover_at - other.recover_at)
      .slice(0, limit)
      .map((row) => {
        const asked = { ...row, recover_at: nextQuestion(row, now) };
        tables.payments.set(row.key, asked);
        return columnsOf(tables, asked, now);
      });
  },

  move_pending({ payments }, [key, untilMs]: [string, number], [now]) {
    const row = payments.get(key);
    if (!row || !isPending(row)) return [];
    const recover_at = untilMs > now ? Math.min(row.recover_at, questionAt(untilMs, now)) : row.recover_at;
    payments.set(key, { ...row, pending_until: untilMs, recover_at });
    return [];
  },

  take_over_longest_due: takeOverDue((one, other) => one.recover_at - other.recover_at),
  take_over_latest_due: takeOverDue((one, other) => other.recover_at - one.recover_at),

  renew: fencedUpdate((_row, [, , , leaseMs], now) => {
    const leaseUntil = now + Number(leaseMs);
    return { lease_until: leaseUntil, recover_at: leaseUntil };
  }),

  abandon: fencedUpdate((row, [, , , recoverAfterMs, unsentEpoch, event], now) => ({
    ...{ owner: '', lease_until: 0, recover_at: now + Number(recoverAfterMs) },
    unsent_epoch: unsentEpoch as number | null,
    events: noted(row, now, event),
  })),

  leave: fencedUpdate((row, [, , , recoverAfterMs, untilMs, clearsEnding, chargeId, event, ...charged], now) => ({
    ...{ owner: '', lease_until: 0, recover_at: now + Number(recoverAfterMs), unsent_epoch: null },
    pending_until: (untilMs as number | null) ?? row.pending_until,
    ending: clearsEnding ? null : row.ending,
    processor_id: (chargeId as string | null) ?? row.processor_id,
    ...(charged[0] !== null && {
      amount: charged[0] as string,
      currency: charged[1] as string,
      fingerprint: charged[2] as string,
    }),
    events: noted(row, now, event),
  })),

  settle: fencedUpdate(settled),
  settle_noted: fencedUpdate((row, fenced, now, tables) => ({
    ...settled(row, fenced, now, tables),
    ...(fenced[7] !== null && { events: noted(row, now, fenced[7]) }),
  })),

  claim_known(tables, values: [string[], string[], number[], ...(string | number | null)[]], [now]) {
    const { payments, loss } = tables;
    const [keys, ids, attempts, ...claimed] = values;
    // The last one is who adopted orders, which nobody does here.
    const formerNames = claimed.at(-2) as unknown as readonly string[];
    const [amount, currency, fingerprint, client, processor, owner, leaseMs, claimBefore, ...more] = claimed;
    const [reference, source, content, reason, resolution, ttlMs] = more;
    const isDeclined = (key: string) => !payments.has(key) || payments.get(key)?.state === 'DECLINED';
    if (now > Number(claimBefore) || !keys.slice(0, -1).every(isDeclined)) return [];
    if (!canKnowLostRows(tables, processor as string, formerNames)) return [];
    return keys.flatMap((key, index) => {
      if (payments.has(key)) return [];
      const isClaimed = index === keys.length - 1;
      const row = {
        ...{
          key,
          transaction_id: ids[index],
          attempt: attempts[index],
          amount,
          currency,
          client,
          processor,
        },
        ...{ reference, epoch: 1, claimed_at: now, generation: loss.generation, claimed_after_loss: true },
        ...{ ...NOT_OPEN, recover_at: now + Number(leaseMs), unsent_epoch: null, events: null },
        ...(isClaimed
          ? {
              state: 'PROCESSING',
              fingerprint,
              owner,
              lease_until: now + Number(leaseMs),
              reason: null,
              resolution: null,
              source,
              content,
            }
          : {
              state: 'DECLINED',
              fingerprint: UNKNOWN_FINGERPRINT,
              owner: '',
              lease_until: 0,
              reason,
              resolution,
              content: null,
            }),
        ...(isClaimed
          ? { settled_at: null, settled_hour: null, expires_at: null }
          : endedAt(now, ttlMs as number, tables)),
      } as StoredPayment;
      payments.set(key, row);
      return [{ owner: row.owner, key, may_be_lost: true, age_ms: 0, expires_at: null }];
    });
  },

  settle_after_loss({ payments, retention }, values: (string | number | null)[], [now]) {
    const [key, epoch, owner, state, reason, ttlMs, event, amount, currency, fingerprint, ...more] = values;
    const [resolution, chargeId] = more as [string | null, string | null];
    const row = payments.get(key as string);
    if (row?.state !== 'PROCESSING' || row.epoch !== epoch || row.owner !== owner) return [];
    const found = { state, reason, amount, currency, fingerprint, resolution } as Partial<StoredPayment>;
    const settled: StoredPayment = {
      ...{ ...row, ...found, source: null, epoch: resolution === null ? row.epoch : row.epoch + 1 },
      ...{ settled_at: now, settled_hour: currentHour(retention).hour, expires_at: now + Number(ttlMs) },
      ...{ events: noted(row, now, event), processor_id: chargeId ?? row.processor_id },
    };
    payments.set(row.key, settled);
    return [{ key, epoch: settled.epoch, owner, expires_at: floor(settled.expires_at) }];
  },

  resolve(tables, values: [string, string, State, string, number, number], [now]) {
    const { payments, retention } = tables;
    const [key, owner, state, reason, dedupMs, idempotencyTtlMs] = values;
    const row = payments.get(key);
    if (row?.state !== 'PROCESSING' || row.lease_until > now) return [];
    if (isPending(row) && unsentOfNow(tables, row) !== 0) {
      const ends = [row.pending_until + RESOLVABLE_AFTER_UNTIL_MS, row.claimed_at + RESOLVABLE_AFTER_CLAIM_MS];
      if (Math.min(...ends) > now) return [];
    } else if (row.claimed_at > now - resolvableAfterMs(tables, row, dedupMs, idempotencyTtlMs)) return [];
    const resolved = {
      ...{ ...row, state, owner, resolution: reason, epoch: row.epoch + 1 },
      reason: state === 'DECLINED' ? reason : null,
      source: null,
      events: begun(row, now, 'resolved'),
      ...{ settled_at: now, settled_hour: currentHour(retention).hour, expires_at: now + idempotencyTtlMs },
    };
    payments.set(key, resolved);
    return [columnsOf(tables, resolved, now)];
  },

  find_payments(tables, [keys]: [string[]], [now]) {
    const rows = keys.flatMap((key) => tables.payments.get(key) ?? []);
    return rows.map((row) => columnsOf(tables, row, now));
  },

  count_abandoned(tables, [olderThanMs, unsentOlderThanMs, limit]: [number, number, number], [now]) {
    const abandoned = oldestUnderWay(tables, limit).filter((row) => {
      const limitMs = resolvableAfterMs(tables, row, olderThanMs, unsentOlderThanMs);
      return (row.lease_until <= now || row.epoch > 1) && row.claimed_at < now - limitMs;
    });
    return [{ abandoned: abandoned.length }];
  },

  backlog(tables, [limit]: [number], [now]) {
    const dead = oldestUnderWay(tables, limit).filter((row) => row.lease_until <= now);
    return [{ payments: dead.length, oldest_ms: Math.max(0, ...dead.map(({ claimed_at }) => now - claimed_at)) }];
  },

  pending_backlog(tables, [limit]: [number], [now]) {
    const pending = oldestUnderWay(tables, limit, true);
    const past = pending.filter(({ pending_until }) => Number(pending_until) < now);
    const oldest_ms = Math.max(0, ...pending.map(({ claimed_at }) => now - claimed_at));
    return [{ payments: pending.length, oldest_ms, past_until: past.length }];
  },

  find_life(tables, [key]: [string], [now]) {
    const row = tables.payments.get(key);
    if (!row) return [];
    const { lease_until, recover_at, expires_at } = row;
    const times = { lease_until: floor(lease_until), recover_at: floor(recover_at), expires_at: floor(expires_at) };
    return [{ ...recordColumnsOf(row), ...times, unsent_of_now: unsentOfNow(tables, row), now: floor(now as number) }];
  },

  find_record: ({ payments }, [key]: [string]) => [payments.get(key) ?? []].flat().map(recordColumnsOf),

  newest_attempt({ payments }, [reference, client]: [string, string | null]) {
    const attempts = [...payments.values()].filter((row) => row.reference === reference && row.client === client);
    return attempts
      .sort((one, other) => Number(other.attempt) - Number(one.attempt))
      .slice(0, 1)
      .map(recordColumnsOf);
  },

  newest_payments: newest(() => true),
  newest_declined: newest(({ state }) => state === 'DECLINED'),
  newest_processing: newest(({ state }) => state === 'PROCESSING'),
  newest_pending: newest(isPending),
  newest_of_client: newest(() => true),
  payments_of_keys: newest(() => true),
  payments_of_reference: newest((row, reference) => row.reference === reference),

  count_keys({ payments }, [first, last, atMost]: [string, string, number]) {
    const found = [...payments.keys()].filter((key) => key >= first && key <= last);
    return [{ keys: Math.min(found.length, atMost) }];
  },

  nth_id: nthId(() => true),
  nth_declined_id: nthId(({ state }) => state === 'DECLINED'),
  nth_processing_id: nthId(({ state }) => state === 'PROCESSING'),
  nth_pending_id: nthId(isPending),
  nth_id_of_client: nthId((row, client) => row.client === client),

  count_paid({ payments }, [limit]: [number]) {
    const oldest = [...payments.values()]
      .sort((one, other) => (one.transaction_id < other.transaction_id ? -1 : 1))
      .slice(0, limit);
    return [...new Set(oldest.map(({ processor }) => processor))].map((processor) => {
      const own = oldest.filter((row) => row.processor === processor);
      const isPaid = ({ state, refund_of }: StoredPayment) => state === 'COMPLETED' && refund_of === null;
      return { processor, payments: own.length, paid: own.filter(isPaid).length };
    });
  },

  settled_payments: settledPage(() => true),
  count_settled: countSettled(() => true),
};

type Period = [afterUs: number, afterKey: string, from: number, to: number, limit: number, countsRefunds?: boolean];

function pageOf(tables: Tables, values: Period, isOne: (row: StoredPayment) => boolean) {
  const [afterUs, afterKey, from, to, limit] = values;
  return settledAfter(tables, afterUs, afterKey)
    .filter(({ row, us }) => us >= from * 1000 && us < to * 1000 && isOne(row))
    .slice(0, limit);
}

export function settledPage(isOne: (row: StoredPayment) => boolean): Statements[string] {
  return (tables, values: Period) => pageOf(tables, values, isOne).map(({ row }) => recordColumnsOf(row));
}

export function countSettled(isOne: (row: StoredPayment) => boolean): Statements[string] {
  return (tables, values: Period) => {
    const page = pageOf(tables, values, isOne);
    const counted = page.filter(({ row }) => row.refund_of === null || values[5] === true);
    const count = (state: State) => counted.filter(({ row }) => row.state === state).length;
    const last = page.at(-1);
    const position = { key: last?.row.key ?? null, last_settled_at: last?.us ?? null };
    return [{ counted: page.length, completed: count('COMPLETED'), declined: count('DECLINED'), ...position }];
  };
}

type Filters = readonly (string | null)[];

/** A null leaves nothing out. */
export function newest(
  isOne: (row: StoredPayment, reference: string | null | undefined, tables: Tables) => boolean,
): Statements[string] {
  return (tables, [from, below, limit, ...filters]: [string, string, number, ...Filters]) => {
    const [state, processor, first, last, client, contentPart, kind, reference] = filters;
    return newestIn(tables, from, below)
      .filter(
        (row) =>
          isOne(row, reference, tables) && (state === 'PENDING' ? isPending(row) : (state ?? row.state) === row.state),
      )
      .filter((row) => (processor ?? row.processor) === row.processor && (client ?? row.client) === row.client)
      .filter(({ key }) => key >= (first ?? key) && key <= (last ?? key))
      .filter(({ refund_of }) => (kind ?? null) === null || (refund_of === null) === (kind === 'payment'))
      .filter(({ content }) => contentPart === null || contentPart === undefined || content?.includes(contentPart))
      .slice(0, limit)
      .map(recordColumnsOf);
  };
}

export function nthId(isOne: (row: StoredPayment, value: unknown, tables: Tables) => boolean): Statements[string] {
  return (tables, [from, below, n, value]: [string, string, number, unknown]) =>
    newestIn(tables, from, below)
      .filter((row) => isOne(row, value, tables))
      .slice(n - 1, n)
      .map(({ transaction_id }) => ({ transaction_id }));
}

function newestIn({ payments }: Tables, from: string, below: string): StoredPayment[] {
  return [...payments.values()]
    .filter(({ transaction_id: id }) => id >= from && id < below)
    .sort((one, other) => (one.transaction_id < other.transaction_id ? 1 : -1));
}

/** A payment with a reference, and a refund, never expire: their outcome is repeated for as long again. */
function columnsOf(tables: Tables, row: StoredPayment, now: number) {
  const { lease_until, claimed_at, ...columns } = row;
  const { reference, refund_name, settled_at, expires_at } = columns;
  const isNeverOver = reference !== null || refund_name !== null;
  const isForEver = isNeverOver && expires_at !== null;
  return {
    ...{ ...columns, remaining_ms: Math.max(0, lease_until - now), age_ms: now - claimed_at },
    unsent_epoch: unsentOfNow(tables, row),
    settled_at: floor(settled_at),
    pending_until: floor(row.pending_until),
    expires_at: floor(isForEver ? now + expires_at - Number(settled_at) : expires_at),
    repeatable: isNeverOver || (expires_at ?? 0) > now,
  };
}

export function recordColumnsOf(row: StoredPayment): object {
  const settledAtUs = row.settled_at === null ? null : Math.floor(row.settled_at * 1000);
  const times = { claimed_at: floor(row.claimed_at), settled_at: floor(row.settled_at) };
  return { ...row, ...times, pending_until: floor(row.pending_until), settled_at_us: settledAtUs };
}

export const floor = (ms: number | null) => (ms === null ? null : Math.floor(ms));
