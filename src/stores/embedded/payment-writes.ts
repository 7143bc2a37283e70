import type {
  ClaimAttempt,
  ClaimResult,
  DueFirst,
  DueTakeover,
  Resolution,
  ResolveResult,
  SettleResult,
  Takeover,
} from '../../payments/ports/ledger.js';
import { keyTimeOf } from '../../payments/values/key-time.js';
import type { Claim, Fence, FinalOutcome, Outcome } from '../../payments/values/payment.js';
import { withEvent } from '../shared/payment-events.js';
import { finalOf, reasonOf } from '../shared/rows.js';
import type { RecordOutcome } from './key-record-writes.js';
import type { PaymentRow } from './payment-row.js';
import type { Database } from './sqlite.js';

const INSERT_CLAIM = `
  INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, client, processor, epoch, owner, lease_until, recover_at, claimed_at,
    claimed_at_wall, state, reason, expires_at, settled_at, settled_hour)
  VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key) DO NOTHING`;

const LOOK_UP_BEFORE = 'SELECT look_up_before FROM deployment';

const FIND = 'SELECT * FROM payments WHERE key = ?';

/** The function is `withEvent`. The line begins with the time (as text, because a number would be bound as a float) and the epoch. */
const eventsWith = (epoch: string, event: string) => `with_event(events, ? || ' ' || (${epoch}) || ' ' || ${event})`;
/** With the owner that is overwritten. */
const TAKEN = eventsWith('epoch + 1', "'taken ' || owner");

const TAKE_OVER = `
  UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?, recover_at = ?, events = ${TAKEN}
  WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ? AND processor = ?
  RETURNING *`;

/** Both ends of what is due, so that neither the oldest nor the newest waits for all the others. */
export const TAKE_OVER_DUE: Readonly<Record<DueFirst, string>> = {
  'longest due': takeOverDueBy('ASC'),
  'latest due': takeOverDueBy('DESC'),
};

function takeOverDueBy(order: 'ASC' | 'DESC'): string {
  return `
    UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?, recover_at = ?, events = ${TAKEN}
    WHERE key IN (
      SELECT key FROM payments
      WHERE state = 'PROCESSING' AND processor = ? AND recover_at <= ? AND lease_until <= ?
      ORDER BY recover_at ${order} LIMIT ?)
    RETURNING *`;
}

const SET_LEASE = `
  UPDATE payments SET lease_until = ?, recover_at = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

/**
 * Clears the owner as well, so that later writes of the same attempt change nothing. The lease ends at 0 and not now, so that
 * a clock that is set back does not revive it.
 */
const ABANDON = `
  UPDATE payments SET owner = '', lease_until = 0, recover_at = ?, unsent_epoch = ?, events = ${eventsWith('epoch', '?')}
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

const SETTLE = `
  UPDATE payments SET state = ?, reason = ?, expires_at = ?, settled_at = ?, settled_hour = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

/** The same with an event for the timeline. */
const SETTLE_NOTED = SETTLE.replace('settled_hour = ?', `settled_hour = ?, events = ${eventsWith('epoch', '?')}`);

/** With one epoch more and an owner of its own, so that no earlier attempt can settle the payment. */
const RESOLVE = `
  UPDATE payments
  SET state = ?, reason = ?, resolution = ?, expires_at = ?, settled_at = ?, settled_hour = ?, epoch = epoch + 1, owner = ?,
    events = ${eventsWith('epoch + 1', "'resolved ' || owner")}
  WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ?
    AND (claimed_at <= CASE WHEN unsent_epoch = epoch THEN ? ELSE ? END
      OR claimed_at_wall <= CASE WHEN unsent_epoch = epoch THEN ? ELSE ? END)
  RETURNING *`;

/** Only this process can hold leases in this folder, so at its start every claim is abandoned and due for recovery. */
const END_ALL_LEASES = `
  UPDATE payments SET lease_until = min(lease_until, $now), recover_at = min(recover_at, $now)
  WHERE state = 'PROCESSING'`;

/** The settlement columns of a payment that is not settled yet. */
const NO_END = ['PROCESSING', null, null, null, null] as const;

export interface ClaimWrite extends Omit<ClaimAttempt, 'claimBy'> {
  /** `claimBy` by the store's clock. */
  readonly claimBefore: number;
  /** The wall clock, milliseconds since the epoch. */
  readonly wallMs: number;
}

export type ResolutionWrite = Resolution & Pick<ClaimWrite, 'wallMs'>;

export type KeyTakeover = Takeover & { readonly key: string };

export interface AbandonWrite extends Fence {
  readonly recoverAfterMs: number;
  readonly unsent: boolean;
  readonly event: string;
}

export interface SettleWrite extends Fence {
  readonly fingerprint: string;
  readonly client: string | undefined;
  readonly outcome: Outcome;
  readonly idempotencyTtlMs: number;
  /** Event for the timeline; undefined for a first attempt that settles. */
  readonly event?: string | undefined;
}

/**
 * The ledger's writes. They run in the writer thread, inside the transaction of their batch, by its clock. A key that
 * `mayBeRemoved` is never inserted. The first claim of a key below `look_up_before` counts as a takeover, because its row may be
 * lost. A settled row stores the `currentHour` of retention. `passTime` makes the commit write the store's time.
 */
export function createPaymentWrites(
  database: Database,
  recordOutcome: RecordOutcome,
  mayBeRemoved: (key: string) => boolean,
  currentHour: () => number,
  storeClock: () => number,
  passTime: () => void,
) {
  database.function('with_event', { deterministic: true }, withEvent);
  const insertClaim = database.prepare(INSERT_CLAIM);
  const find = database.prepare(FIND);
  const takeOver = database.prepare(TAKE_OVER);
  const takeOverDue = {
    'longest due': database.prepare(TAKE_OVER_DUE['longest due']),
    'latest due': database.prepare(TAKE_OVER_DUE['latest due']),
  };
  const setLease = database.prepare(SET_LEASE);
  const abandon = database.prepare(ABANDON);
  const settle = database.prepare(SETTLE);
  const settleNoted = database.prepare(SETTLE_NOTED);
  const resolve = database.prepare(RESOLVE);
  const { look_up_before: lookUpBefore } = database.prepare(LOOK_UP_BEFORE).get() as { look_up_before: string };

  function takeOverRow(takeover: KeyTakeover, now: number): Claim | undefined {
    const { key, owner, leaseMs, processor } = takeover;
    const leaseUntil = now + leaseMs;
    const values = [owner, leaseUntil, leaseUntil, `${now}`, key, now, processor];
    const row = takeOver.get(...values) as PaymentRow | undefined;
    return row && claimOf(row, now);
  }

  /** The settlement columns of a payment, as INSERT_CLAIM and SETTLE take them. */
  function endOf({ outcome, expiresAt }: FinalOutcome, now: number): readonly (string | number | null)[] {
    return [outcome.state, reasonOf(outcome), expiresAt, now, currentHour()];
  }

  return {
    /** 'claimed'; the time until which the outcome is repeated, if this claim settled it; or the state of an existing row. */
    claim(attempt: ClaimWrite): 'claimed' | number | Exclude<ClaimResult, { state: 'claimed' | 'settled' }> {
      const {
        key,
        transactionId,
        amount,
        currency,
        fingerprint,
        client,
        processor,
        owner,
        leaseMs,
        claimBefore,
        wallMs,
      } = attempt;
      const now = storeClock();
      const leaseUntil = now + leaseMs;
      const mayBeLost = key < lookUpBefore;
      // The lost claim may be as old as the key.
      const claimedAt = mayBeLost ? Math.min(now, keyTimeOf(key)) : now;
      const claimedAtWall = mayBeLost ? Math.min(wallMs - (now - claimedAt), claimedAt) : wallMs;
      if (now <= claimBefore && !mayBeRemoved(key)) {
        const row = [
          key,
          transactionId,
          amount,
          currency,
          fingerprint,
          client ?? null,
          processor,
          owner,
          leaseUntil,
          leaseUntil,
          claimedAt,
          Math.floor(claimedAtWall),
        ];
        // The attempt of a lost row may have charged, so the processor is asked first.
        const final = mayBeLost ? undefined : finalAt(now, attempt);
        const end = final ? endOf(final, now) : NO_END;
        if (insertClaim.run(...row, ...end).changes > 0) {
          if (final) {
            recordOutcome(key, final);
            return final.expiresAt;
          }
          if (!mayBeLost) return 'claimed';
          return { state: 'taken over', claim: { ...claimOf(find.get(key) as PaymentRow, now), unsent: false } };
        }
      }
      const row = find.get(key) as PaymentRow | undefined;
      if (!row) return { state: mayBeRemoved(key) ? 'expired' : 'too late' };
      if (row.state !== 'PROCESSING') {
        const final = finalOf(row);
        if (final.expiresAt > now) return { state: 'final', final };
        passTime();
        return { state: 'expired' };
      }
      const taken = takeOverRow(attempt, now);
      if (taken) return { state: 'taken over', claim: taken };
      const remainingMs = Math.max(0, row.lease_until - now);
      return { state: 'under way', fingerprint: row.fingerprint, remainingMs };
    },

    takeOver: (takeover: KeyTakeover): Claim | null => takeOverRow(takeover, storeClock()) ?? null,

    takeOverDue({ owner, leaseMs, processor, first, limit }: DueTakeover): Claim[] {
      const now = storeClock();
      const leaseUntil = now + leaseMs;
      const values = [owner, leaseUntil, leaseUntil, `${now}`, processor, now, now, limit];
      const rows = takeOverDue[first].all(...values) as PaymentRow[];
      return rows.map((row) => claimOf(row, now));
    },

    renew({ key, epoch, owner, leaseMs }: Fence & { leaseMs: number }): boolean {
      const leaseUntil = storeClock() + leaseMs;
      return setLease.run(leaseUntil, leaseUntil, key, epoch, owner).changes > 0;
    },

    abandon({ key, epoch, owner, recoverAfterMs, unsent, event }: AbandonWrite): boolean {
      const now = storeClock();
      const recoverAt = now + Math.ceil(recoverAfterMs);
      return abandon.run(recoverAt, unsent ? epoch : null, `${now}`, event, key, epoch, owner).changes > 0;
    },

    /** When it settled, the moment until which the outcome is repeated; else who finished or holds the payment. */
    settle(settlement: SettleWrite): number | Exclude<SettleResult, { state: 'settled' }> {
      const { key, epoch, owner, fingerprint, client, outcome, idempotencyTtlMs, event } = settlement;
      const now = storeClock();
      const final = { outcome, fingerprint, client, expiresAt: now + idempotencyTtlMs };
      const end = endOf(final, now);
      const { changes } =
        event === undefined
          ? settle.run(...end, key, epoch, owner)
          : settleNoted.run(...end, `${now}`, event, key, epoch, owner);
      if (changes > 0) {
        recordOutcome(key, final);
        return final.expiresAt;
      }
      const winner = find.get(key) as PaymentRow | undefined;
      return winner && winner.state !== 'PROCESSING'
        ? { state: 'final', final: finalOf(winner) }
        : { state: 'fenced off' };
    },

    resolve({ key, owner, state, reason, dedupMs, idempotencyTtlMs, wallMs }: ResolutionWrite): ResolveResult {
      const now = storeClock();
      const declined = state === 'DECLINED' ? reason : null;
      const latestClaims = [now, wallMs].flatMap((ms) => [ms - idempotencyTtlMs, ms - dedupMs]);
      const expiresAt = now + idempotencyTtlMs;
      const values = [
        state,
        declined,
        reason,
        expiresAt,
        now,
        currentHour(),
        owner,
        `${now}`,
        key,
        now,
        ...latestClaims,
      ];
      const resolved = resolve.get(...values) as PaymentRow | undefined;
      if (resolved) {
        const final = finalOf(resolved);
        recordOutcome(key, final);
        return { state: 'resolved', final };
      }
      const row = find.get(key) as PaymentRow | undefined;
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.lease_until > now) return { state: 'under way', remainingMs: row.lease_until - now };
      const unresolvableMs = row.unsent_epoch === row.epoch ? idempotencyTtlMs : dedupMs;
      const ageMs = Math.max(now - row.claimed_at, wallMs - row.claimed_at_wall);
      return { state: 'too early', remainingMs: unresolvableMs - ageMs };
    },

    endAllLeases(): void {
      database.prepare(END_ALL_LEASES).run({ now: storeClock() });
    },
  };
}

/** The outcome that a claim is settled with in its own commit. */
function finalAt(now: number, { settleAs, fingerprint, client }: ClaimWrite): FinalOutcome | undefined {
  return settleAs && { outcome: settleAs.outcome, fingerprint, client, expiresAt: now + settleAs.idempotencyTtlMs };
}

function claimOf(row: PaymentRow, now: number): Claim {
  return {
    key: row.key,
    epoch: row.epoch,
    owner: row.owner,
    transactionId: row.transaction_id,
    amount: row.amount,
    currency: row.currency,
    fingerprint: row.fingerprint,
    client: row.client ?? undefined,
    processor: row.processor,
    unsent: row.unsent_epoch === row.epoch - 1,
    ageMs: now - row.claimed_at,
    claimedAtWallMs: row.claimed_at_wall,
  };
}
