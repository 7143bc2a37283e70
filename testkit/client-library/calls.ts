import { DeclinedError, type Idempay, IdempayError, type PayResult, UnknownOutcomeError } from '@idempay/client';
import { isNotAttempted } from './not-attempted.mjs';

/** The final result of a call, as the caller sees it. */
export type Told =
  | { readonly state: 'paid'; readonly transactionId: string; readonly key: string }
  | { readonly state: 'declined'; readonly key: string }
  | { readonly state: 'not attempted' }
  | { readonly state: 'unknown'; readonly key: string; readonly record: 'open' | 'none' | 'not read' }
  /** No error of the client, or one that no such call may end with. */
  | { readonly state: 'wrong'; readonly what: string };

/** One call of `pay`, and of `resume` after it. No two calls pay the same amount, so the amount names the call in every log. */
export interface PayCall {
  readonly amount: string;
  /** All keys that `onKey` got. */
  readonly keys: string[];
  /** When it had kept the first of them, by `performance.now()`. */
  keptAt: number;
  readonly told: Told[];
}

export const CURRENCY = 'USD';
/** The nth call of a run. */
export const amountOf = (index: number) => `${Math.floor(index / 100) + 1}.${`${index % 100}`.padStart(2, '0')}`;

/** Undefined for a call that has not ended. */
export const lastTold = ({ told }: PayCall) => told.at(-1);

/** Calls `pay`, with an `onKey` that takes as long as a write to a database. */
export async function callPay(
  idempay: Idempay,
  amount: string,
  options: { readonly deadlineMs: number; readonly keepMs: number },
): Promise<PayCall> {
  const call: PayCall = { amount, keys: [], keptAt: Number.POSITIVE_INFINITY, told: [] };
  const onKey = async (key: string) => {
    call.keys.push(key);
    await new Promise((resolve) => setTimeout(resolve, options.keepMs));
    call.keptAt = Math.min(call.keptAt, performance.now());
  };
  const { deadlineMs } = options;
  call.told.push(await toldBy(idempay.payments.pay({ amount, currency: CURRENCY }, { onKey, deadlineMs })));
  return call;
}

/** Goes on if the outcome is unknown, with the key that the error has. */
export async function callResume(idempay: Idempay, call: PayCall, deadlineMs: number): Promise<void> {
  const last = lastTold(call);
  if (last?.state !== 'unknown') return;
  call.told.push(
    await toldBy(idempay.payments.resume(last.key, { amount: call.amount, currency: CURRENCY }, { deadlineMs })),
  );
}

async function toldBy(paying: Promise<PayResult>): Promise<Told> {
  try {
    const { transactionId, key } = await paying;
    return { state: 'paid', transactionId, key };
  } catch (fault) {
    return toldByFault(fault);
  }
}

function toldByFault(fault: unknown): Told {
  if (fault instanceof DeclinedError) return { state: 'declined', key: fault.key };
  if (isNotAttempted(fault)) return { state: 'not attempted' };
  if (fault instanceof UnknownOutcomeError) {
    const { key = '', record } = fault;
    return { state: 'unknown', key, record: record ? 'open' : record === null ? 'none' : 'not read' };
  }
  const { name, message, stack } = fault as Error;
  return { state: 'wrong', what: fault instanceof IdempayError ? `${name}: ${message}` : `${stack}` };
}
