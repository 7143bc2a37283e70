import { StoreUnavailable } from '../../platform/faults.js';
import { lookUp as askAbout } from '../asking.js';
import type { AttemptEndings } from '../attempt-endings.js';
import type { PaymentContext } from '../context.js';
import type { CarryOut } from '../execution.js';
import { countSettled } from '../payment-counts.js';
import type { ClaimedPayment, PaymentRecord } from '../ports/payment-history.js';
import { isKeptOf, keptReason } from '../processors/decline-reason.js';
import type { Outcome } from '../values/payment.js';
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
> & { readonly carryOut: CarryOut; readonly endings: AttemptEndings };

export function createResolve(context: ResolveContext): Resolve {
  const { ledger, history, processor, clock, newOwner, events, counts, carryOut, endings } = context;
  const { dedupMs, idempotencyTtlMs, leaseMs } = context.rules;
  const { name, formerNames } = processor.traits;

  /**
   * The processor is asked first, because its knowledge counts more than a person's finding. Dies before `resolve`: nothing happened. Dies
   * after it: the row is final, and the next begin or look finds it there and repairs the key record. Given twice: the second finds the
   * first one's verdict.
   */
  return async function resolve(key, { state, reason }, by) {
    const refund = (await finishByLookUp(key, by))?.refund;
    const owner = newOwner(by);
    const kept = keptReason(reason, await ledger.payerOf(key));
    const resolved = await ledger.resolve({ key, owner, state, reason: kept, dedupMs, idempotencyTtlMs });
    switch (resolved.state) {
      case 'resolved': {
        countSettled(counts, refund !== undefined, 'operator', state);
        // The commit is known, so the verdict stands, also when the key store fails now. A refund has no record there.
        if (!refund) await endings.finish(key, owner, resolved.final);
        const shown = await shownAfterwards(key).catch((fault: unknown) => {
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

  /** Finishes the payment if its processor knows the outcome; sends nothing. Resolves to the payment as it was before. */
  async function finishByLookUp(key: string, by: string | undefined): Promise<PaymentRecord | undefined> {
    const payment = await history.find(key);
    if (payment?.state === 'PROCESSING' && [name, ...formerNames].includes(payment.processor))
      await lookUp(payment, by);
    return payment;
  }

  async function lookUp(payment: ClaimedPayment, asker: string | undefined): Promise<void> {
    const { key } = payment;
    // A row that was claimed after a loss may have another amount than was charged. Only `carryOut` knows when the row was claimed, so a
    // reply that was not compared here is asked for again there.
    const isMoneyKnown = !(await ledger.mayBeLost(key));
    const found = await askAbout(processor, payment, isMoneyKnown, openOf(payment));
    if (found.state !== 'succeeded' && found.state !== 'declined') return;
    const answered = found.state === 'succeeded' ? 'COMPLETED' : 'DECLINED';
    const askedAt = clock.monotonic();
    const owner = newOwner(asker);
    const isPending = payment.pendingUntil !== undefined;
    const by = { key, owner, leaseMs, processor: name, formerProcessors: formerNames };
    const claim = await ledger.takeOver({ ...by, isPending });
    if (!claim) return compareWithKept(payment, answered);
    const known = isPending && isMoneyKnown ? found : undefined;
    const result = await carryOut(claim, askedAt, 'operator', known);
    if (result.state === 'unknown' || result.state === 'not sent') events.unknown(claim, result.cause);
  }

  /** The payment may have been resolved while the processor was asked, or its row was lost and it was cancelled. */
  async function compareWithKept(payment: ClaimedPayment, answered: Outcome['state']): Promise<void> {
    const kept = await history.find(payment.key);
    if (!kept || kept.state === 'PROCESSING' || kept.state === answered) return;
    // A declined payment charged nothing, as a cancellation promises.
    if (kept.state === 'CANCELLED' && answered === 'DECLINED') return;
    events.contradiction(kept.state === 'CANCELLED' ? payment : kept, answered, kept.state);
  }

  /** The verdict is written, so a store that fails now is reported as unknown, not as unchanged. */
  async function shownAfterwards(key: string): Promise<PaymentRecord | undefined> {
    return history.find(key).catch((fault: unknown) => {
      throw new StoreUnavailable('unknown', 'the verdict was written and could not be read', fault);
    });
  }
}

function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
