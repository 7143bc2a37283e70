import type {
  ClaimAttempt,
  ClaimResult,
  DueTakeover,
  Resolution,
  ResolveResult,
  SettleResult,
  Takeover,
} from '../../payments/ports/ledger.js';
import { keyTimeOf } from '../../payments/values/key-time.js';
import type { Claim, Fence, FinalOutcome, Outcome } from '../../payments/values/payment.js';
import { finalOf, reasonOf } from '../shared/rows.js';
import type { RecordOutcome } from './key-record-writes.js';
import * as statements from './ledger-statements.js';
import type { PaymentRow } from './payment-row.js';
import type { Database } from './sqlite.js';

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
  const insertClaim = database.prepare(statements.INSERT_CLAIM);
  const find = database.prepare(statements.FIND);
  const takeOver = database.prepare(statements.TAKE_OVER);
  const takeOverDue = {
    'longest due': database.prepare(statements.TAKE_OVER_DUE['longest due']),
    'latest due': database.prepare(statements.TAKE_OVER_DUE['latest due']),
  };
  const setLease = database.prepare(statements.SET_LEASE);
  const abandon = database.prepare(statements.ABANDON);
  const settle = database.prepare(statements.SETTLE);
  const settleNoted = database.prepare(statements.SETTLE_NOTED);
  const resolve = database.prepare(statements.RESOLVE);
  const { look_up_before: lookUpBefore } = database.prepare(statements.LOOK_UP_BEFORE).get() as {
    look_up_before: string;
  };

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
      database.prepare(statements.END_ALL_LEASES).run({ now: storeClock() });
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
