import type { Clock } from '../clock.js';
import { StoreUnavailable } from '../faults.js';
import type { Endings } from './endings.js';
import type { Leases } from './leases.js';
import type { Ledger } from './ports/ledger.js';
import type { ChargeResult, NotSent, Processor } from './ports/processor.js';
import type { Claim, FinalOutcome, Outcome } from './values/payment.js';

export type AttemptResult =
  /** This attempt wrote the outcome: it alone gives the first answer (decisions P13). */
  | { readonly state: 'settled'; readonly final: FinalOutcome }
  /** Another attempt wrote it. */
  | { readonly state: 'finished elsewhere'; readonly final: FinalOutcome }
  /** Not known (yet): never reported as failed (decisions P11). */
  | { readonly state: 'unknown'; readonly cause: string }
  /** Nothing was ever sent for it, and the row says so: it will be sent by whoever takes it over (decisions P15). */
  | { readonly state: 'not sent'; readonly cause: string };

/** Who carries a payment out. An operator's question is looked up and never sent. */
export type Origin = 'first claim' | 'repeat' | 'recovery' | 'operator';

/** Carries out a claimed payment: ask the processor, settle, tell the key store. */
export type CarryOut = (claim: Claim, askedAt: number, origin: Origin) => Promise<AttemptResult>;

export function createCarryOut(collaborators: {
  endings: Endings;
  ledger: Ledger;
  processor: Processor;
  leases: Leases;
  idempotencyTtlMs: number;
  /** The processor told this outcome, and the row is final with the other one. */
  onContradiction: (claim: Claim, told: Outcome['state'], kept: Outcome['state']) => void;
  /** How long recovery leaves a payment alone whose outcome is still unknown at that age. */
  recoverAfterMs: (ageMs: number) => number;
  clock: Clock;
}): CarryOut {
  const { endings, ledger, processor, leases, idempotencyTtlMs, onContradiction, recoverAfterMs, clock } =
    collaborators;

  /**
   * Dies before `askProcessor`: the row is PROCESSING, nothing was charged; recovery looks up, then charges.
   * Dies before `settle`: charged, the row is PROCESSING; recovery looks up by the same reference and settles.
   * Dies before `giveUp` of what was not sent: the row is like any other that may have been sent.
   * Dies after `settle`: the row is final; the next begin or look finds it there and repairs the key record.
   */
  return async function carryOut(claim, askedAt, origin) {
    const lease = leases.hold(claim, askedAt);
    const ageMs = () => claim.ageMs + clock.monotonic() - askedAt;
    let charged = false;
    try {
      const result = await askProcessor(claim, origin, ageMs, () => lease.outlives(processor.timeoutMs));
      if (result.state === 'unknown' || result.state === 'not sent') {
        // Before the lease is ended: a renewal that came after would give a dead attempt a whole one.
        lease.drop();
        const isMarked = await giveUp(claim, ageMs(), result.state === 'not sent' && claim.unsent);
        return isMarked ? { state: 'not sent', cause: result.cause } : outcomeElsewhere(claim, result.cause);
      }
      charged = true;
      const settled = await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);
      if (settled.state === 'fenced off') {
        await endings.release(claim.key, claim.owner);
        const cause = `the processor answered "${result.state}", and another attempt has taken the payment over`;
        return { state: 'unknown', cause };
      }
      const told = outcomeOf(claim, result).state;
      const kept = settled.final.outcome.state;
      if (told !== kept) onContradiction(claim, told, kept);
      // The commit is known, so the answer is the outcome, whatever the key store says next.
      await endings.finish(claim.key, claim.owner, settled.final);
      return { state: settled.state === 'settled' ? 'settled' : 'finished elsewhere', final: settled.final };
    } catch (fault) {
      lease.drop();
      await giveUp(claim, ageMs(), false);
      throw charged ? new StoreUnavailable('unknown', 'the outcome could not be written', fault) : fault;
    } finally {
      lease.drop();
    }
  };

  /**
   * A takeover looks first: whoever held the claim before may have charged already. Only where this attempt has called
   * `charge` is the result ever 'unknown': a look-up that fails proves nothing, and sends nothing.
   */
  async function askProcessor(
    claim: Claim,
    origin: Origin,
    ageMs: () => number,
    stillOurs: () => Promise<boolean>,
  ): Promise<ChargeResult | NotSent> {
    if (origin !== 'first claim') {
      const found = await processor.lookUp(claim.key);
      if (found.state === 'unknown') return { state: 'not sent', cause: found.cause };
      if (found.state !== 'no record') return found;
      const obstacle = obstacleToSending(claim, origin, ageMs());
      if (obstacle) return { state: 'not sent', cause: `no record at the processor, ${obstacle}` };
    }
    if (!(await stillOurs())) return { state: 'not sent', cause: 'the lease was lost before the charge was sent' };
    const { key, transactionId, amount, currency } = claim;
    return processor.charge({ reference: key, transactionId, amount, currency });
  }

  /** Why a payment that the processor has no record of is not sent now; undefined when it is. */
  function obstacleToSending(claim: Claim, origin: Origin, ageMs: number): string | undefined {
    if (origin === 'operator') return 'and looked up only, for an operator';
    if (claim.processor !== processor.name) return 'and claimed before rows named the account';
    if (!claim.unsent) return isWithin(ageMs, processor.dedupMs) ? undefined : 'and too old to be sent again';
    // A payer who repeats wants to pay. One who has been silent for as long as a key lives may have paid elsewhere.
    const mayBeSent = origin !== 'recovery' || isWithin(ageMs, idempotencyTtlMs);
    return mayBeSent ? undefined : 'never sent, and too old to be sent without a repeat';
  }

  /** Whoever took the payment over meanwhile may have finished it; what is not final stays unknown. */
  async function outcomeElsewhere(claim: Claim, cause: string): Promise<AttemptResult> {
    // A store that fails now changes nothing about the charge: it was sent, and its outcome is not known.
    const found = await ledger.find(claim.key).catch(() => undefined);
    return found?.state === 'final' ? { state: 'finished elsewhere', final: found.final } : { state: 'unknown', cause };
  }

  /**
   * The outcome is unknown: the row's lease and the lock end at once, so that the next repeat looks it up. The lock last: it
   * is its end that wakes who waits, and they must find the row free. Resolves to whether the row is known to be marked
   * unsent: only then may anybody be told so.
   */
  async function giveUp(claim: Claim, ageMs: number, unsent: boolean): Promise<boolean> {
    const mark = unsent ? 'unsent' : undefined;
    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark).catch(ignoreUnavailable);
    await endings.release(claim.key, claim.owner);
    return unsent && isGivenUp;
  }
}

/** A store that is away ends leases by itself, with time. Any other exception is a bug, and must not pass unseen. */
function ignoreUnavailable(fault: unknown): false {
  if (!(fault instanceof StoreUnavailable)) throw fault;
  return false;
}

/** An age below nothing means that the store's clock was set back, so nobody knows it: then it is not sent, for now. */
function isWithin(ageMs: number, limitMs: number): boolean {
  return limitMs === Number.POSITIVE_INFINITY || (ageMs >= 0 && ageMs < limitMs);
}

function outcomeOf(claim: Claim, result: Exclude<ChargeResult, { state: 'unknown' }>): Outcome {
  return result.state === 'succeeded'
    ? { state: 'COMPLETED', transactionId: claim.transactionId }
    : { state: 'DECLINED', reason: result.reason };
}
