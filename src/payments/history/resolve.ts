import { afterWrite } from '../../platform/faults.js';
import { SOON, wholeSeconds } from '../answers.js';
import { lookUp as askAbout } from '../asking.js';
import { compareWithKept } from '../compare-with-kept.js';
import { claimTermsOf, type PaymentContext } from '../context.js';
import type { CarryOut, KnownOutcome } from '../execution.js';
import type { LockEnds } from '../lock-ends.js';
import { countSettled } from '../payment-counts.js';
import type { ClaimedPayment, PaymentRecord } from '../ports/payment-history.js';
import { type LookUpResult, namesOf } from '../ports/processor.js';
import { isKeptOf, keptReason } from '../processors/decline-reason.js';
import { fingerprintOf } from '../values/money.js';
import type { Claim, Outcome } from '../values/payment.js';
import { openOf } from './ask-processor.js';

export interface Verdict {
  readonly state: Outcome['state'];
  readonly reason: string;
}

export type ResolveAnswer =
  /** Also when the same verdict is given again. The payment is undefined when its row has been removed meanwhile. */
  | { readonly state: 'resolved' | 'final'; readonly payment: PaymentRecord | undefined }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The service may still find out by itself: asking the processor, or sending the charge again. */
  | { readonly state: 'too early'; readonly retryAfterSeconds: number; readonly isPending: boolean }
  | { readonly state: 'not found' };

/** Writes the outcome that an operator found out for a payment that the service cannot find out itself. `by`: the client that asks. */
export type Resolve = (key: string, verdict: Verdict, by?: string) => Promise<ResolveAnswer>;

export type ResolveContext = Pick<
  PaymentContext,
  'ledger' | 'history' | 'processor' | 'rules' | 'clock' | 'newOwner' | 'events' | 'counts'
> & { readonly carryOut: CarryOut; readonly lockEnds: LockEnds };

/** A reply that the row must have before a verdict is written. */
type Answer = Exclude<LookUpResult, { state: 'unknown' | 'no record' }>;

export function createResolve(context: ResolveContext): Resolve {
  const { ledger, history, processor, clock, newOwner, events, counts, carryOut, lockEnds } = context;
  const { dedupMs, idempotencyTtlMs, leaseMs } = context.rules;
  const { ofProcessor } = claimTermsOf(context);

  /**
   * The processor is asked first, because its knowledge counts more than a person's finding. Dies before `resolve`: nothing happened, or the
   * row has what the processor said. Dies after it: the row is final, and the next begin or look finds it there and repairs the key record.
   * Given twice: the second finds the first one's verdict.
   */
  return async function resolve(key, { state, reason }, by) {
    const before = await history.find(key);
    if (isAskable(before) && (await hasUnwrittenAnswer(before, by))) return SOON;
    const owner = newOwner(by);
    const kept = keptReason(reason, await ledger.payerOf(key));
    const resolved = await ledger.resolve({ key, owner, state, reason: kept, dedupMs, idempotencyTtlMs });
    switch (resolved.state) {
      case 'resolved': {
        countSettled(counts, before?.refund !== undefined, 'operator', state);
        // The commit is known, so the verdict stands, also when the key store fails now. A refund has no record there.
        if (!before?.refund) await lockEnds.finish(key, owner, resolved.final);
        const shown = await afterWrite(history.find(key)).catch((fault: unknown) => {
          events.resolved?.(undefined, state, by);
          throw fault;
        });
        events.resolved?.(shown?.state === 'CANCELLED' ? undefined : shown, state, by);
        return { state: 'resolved', payment: shown };
      }
      case 'settled before': {
        const payment = await history.find(key);
        const sameVerdict = payment?.state === state && isKeptOf(payment.resolution, reason);
        return { state: sameVerdict ? 'resolved' : 'final', payment };
      }
      case 'under way':
        return { state: 'in progress', retryAfterSeconds: wholeSeconds(resolved.remainingMs) };
      case 'too early':
        return {
          state: 'too early',
          retryAfterSeconds: wholeSeconds(resolved.remainingMs),
          isPending: (await history.find(key))?.pendingUntil !== undefined,
        };
      case 'absent':
        return { state: 'not found' };
    }
  };

  /**
   * Asks the processor, and writes an outcome, or that the payment is pending. Sends nothing. True if the processor said so and the row does
   * not yet: a verdict would be written, and the store would judge its time, as if the processor had said nothing.
   */
  async function hasUnwrittenAnswer(payment: ClaimedPayment, by: string | undefined): Promise<boolean> {
    const { key } = payment;
    // A row that was claimed after a loss may have another amount than was charged. Only `carryOut` knows when the row was claimed, so a
    // reply that was not compared here is asked for again there.
    const isMoneyKnown = !(await ledger.mayBeLost(key));
    const open = openOf(payment);
    const found = await askAbout(processor, payment, isMoneyKnown, open);
    if (found.state === 'unknown' || found.state === 'no record') return false;
    if (found.state === 'pending' && payment.pendingUntil !== undefined) {
      await ledger.movePending(key, found.untilMs);
      return false;
    }
    const known = open && isMoneyKnown && found.state !== 'pending' ? found : undefined;
    return isUnsettled(payment, found, known, by);
  }

  /** Takes the payment over. `known`: what was found, if that is enough to settle an open payment; otherwise it is looked up again. */
  async function isUnsettled(
    payment: ClaimedPayment,
    found: Answer,
    known: KnownOutcome | undefined,
    by: string | undefined,
  ): Promise<boolean> {
    const { key } = payment;
    const askedAt = clock.monotonic();
    const isPending = payment.pendingUntil !== undefined;
    const claim = await ledger.takeOver({ key, owner: newOwner(by), leaseMs, ...ofProcessor, isPending });
    if (!claim) return isUnderWay(payment, found);
    const result = await carryOut(claim, askedAt, 'operator', known);
    if (result.state === 'cannot be ended') return true;
    if (result.state !== 'unknown' && result.state !== 'not sent') return false;
    events.unknown(claim, result.cause);
    return isAboutMoneyOf(claim, found);
  }

  /** The payment may have been resolved while the processor was asked, or its row was lost and it was cancelled. */
  async function isUnderWay(payment: ClaimedPayment, found: Answer): Promise<boolean> {
    const kept = await history.find(payment.key);
    if (kept?.state === 'PROCESSING') return true;
    if (found.state !== 'pending') compareWithKept(events, payment, found, kept?.state);
    return false;
  }

  function isAskable(payment: PaymentRecord | undefined): payment is ClaimedPayment {
    return payment?.state === 'PROCESSING' && namesOf(processor.traits).includes(payment.processor);
  }
}

/**
 * False for a reply that names another amount than the row, which says nothing of it, and for a charge of an amount that nobody knows: then
 * only the operator can find out more.
 */
function isAboutMoneyOf({ claimedAfterLoss, fingerprint }: Claim, found: Answer): boolean {
  const charged = 'charged' in found ? found.charged : undefined;
  if (claimedAfterLoss) return found.state !== 'succeeded' || charged !== undefined;
  return !charged || fingerprintOf(charged) === fingerprint;
}
