import type { PaymentRequest } from '@idempay/client';
import type { Http } from '../http/http.js';
import { sentenceOf } from '../http/service-error.js';
import { type Call, type Outcome, sendCall, stringIn } from './call.js';

export interface Exchange {
  readonly calls: readonly Call[];
  /** In the order of the calls; empty while they are under way. */
  readonly outcomes: readonly Outcome[];
}

export interface Step {
  readonly number: number;
  readonly title: string;
  readonly exchanges: readonly Exchange[];
  /** The key of the payment that it was about. */
  readonly key: string | undefined;
  /** What the answers show, in a sentence. */
  readonly note?: string | undefined;
}

/** How long a duplicate may wait (spec of the service: 30 seconds at most). */
const WAIT_SECONDS = 10;

export const generateKeyCall: Call = { method: 'GET', path: 'api/server-generated/generate-key', headers: {} };

export const payCall = (key: string, payment: PaymentRequest, headers: Call['headers'] = {}): Call => ({
  method: 'POST',
  path: 'api/payment',
  headers: { 'Idempotency-Key': key, ...headers },
  json: payment,
});

export const statusCall = (key: string): Call => ({
  method: 'GET',
  path: 'api/payment-status',
  headers: { 'Idempotency-Key': key },
});

export const waiting = { Prefer: `wait=${WAIT_SECONDS}` };

/** Sends calls at once, payments only where `mayPay` says so now; `show` is called before the answers and after them. */
export async function exchange(
  http: Http,
  calls: readonly Call[],
  mayPay: () => Promise<boolean>,
  show: (exchange: Exchange) => void,
) {
  show({ calls, outcomes: [] });
  const obstacle = calls.some(({ method }) => method === 'POST') ? await obstacleTo(mayPay) : undefined;
  const outcomes = await Promise.all(calls.map((call) => obstacle ?? sendCall(http, call)));
  const done = { calls, outcomes };
  show(done);
  return done;
}

async function obstacleTo(mayPay: () => Promise<boolean>): Promise<Outcome | undefined> {
  try {
    return (await mayPay()) ? undefined : { problem: 'Not sent: it is not sure any more that no money moves.' };
  } catch (error) {
    return { problem: sentenceOf(error) };
  }
}

const KEY = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const PAID = /^(?:Payment processed successfully with )?Transaction ID: TXN\d+$/;

/** The key that the answer gives. Undefined where the answer refuses, or is not the service's own. */
export function keyIn({ outcomes: [outcome] }: Exchange): string | undefined {
  const key = outcome && isAnswer(outcome, 200) ? stringIn(outcome) : undefined;
  return key !== undefined && KEY.test(key) ? key : undefined;
}

/** By its text: a gateway may answer 200 as well. */
const isPaid = (outcome: Outcome) => isAnswer(outcome, 200) && PAID.test(stringIn(outcome) ?? '');

function isAnswer(outcome: Outcome, status: number): outcome is Exclude<Outcome, { problem: string }> {
  return !('problem' in outcome) && outcome.status === status;
}

/** What two payments at once came to, as it was and not as one would like it. */
export function noteOfTwo(outcomes: readonly Outcome[], duplicateWaits: boolean, slowDown: string): string {
  if (!outcomes.some(isPaid)) {
    return 'Neither answer names a transaction, so it is not known here whether it was paid. Repeat them with the same key.';
  }
  if (outcomes.some((outcome) => isAnswer(outcome, 409) && outcome.isOwn)) {
    return 'One request pays; the other one is told 409, because the payment is under way. Repeated later it gets the stored result.';
  }
  if (outcomes.every(isPaid)) {
    const replayed = outcomes.filter(
      (outcome) => !('problem' in outcome) && outcome.headers.some(([name]) => name === 'idempotent-replayed'),
    ).length;
    const both = `Both were answered 200, and one payment was made: ${replayed === 1 ? 'one answer is a replay' : 'both answers name the same transaction'}.`;
    if (duplicateWaits) return `${both} The duplicate may wait, so it is not told 409.`;
    return `${both} No 409 this time: the payment had ended before the second request was looked at. ${slowDown}`;
  }
  return 'One request was answered with the transaction; repeat the other one with the same key.';
}
