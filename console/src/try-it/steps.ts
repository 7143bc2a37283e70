import type { PaymentRequest } from '@idempay/client';
import type { Http } from '../http/http.js';
import { sentenceOf } from '../http/service-error.js';
import { type Call, headerIn, type Outcome, sendCall, stringIn } from './call.js';

/** Each request names its payment by an attempt at an order, which the client has anyway, or by a key that the service generated. */
export type PaymentName = Order | { readonly key: string };

/** `attempt`: as it was typed. If omitted, it is the first one. */
export interface Order {
  readonly reference: string;
  readonly attempt?: string;
}

export interface Exchange {
  readonly calls: readonly Call[];
  /** In the order of the calls; empty while they are under way. */
  readonly outcomes: readonly Outcome[];
}

export interface Step {
  readonly number: number;
  readonly title: string;
  readonly exchange: Exchange | undefined;
  /** The payment that it was about. */
  readonly about: PaymentName | undefined;
  /** The key of that payment, which has a timeline. */
  readonly key: string | undefined;
  /** It says in a few sentences what the answers show, and what a client must do. */
  readonly note?: string | undefined;
}

/** How long a duplicate may wait (spec of the service: 30 seconds at most). */
const WAIT_SECONDS = 10;

export const generateKeyCall: Call = { method: 'GET', path: 'api/server-generated/generate-key', headers: {} };

export const payCall = (name: PaymentName, payment: PaymentRequest, headers: Call['headers'] = {}): Call => ({
  method: 'POST',
  ...namedIn('api/payment', name, headers),
  json: payment,
});

export const statusCall = (name: PaymentName): Call => ({
  method: 'GET',
  ...namedIn('api/payment-status', name),
});

/** A reference is a parameter, and a key is a header. */
function namedIn(path: string, name: PaymentName, headers: Call['headers'] = {}): Pick<Call, 'path' | 'headers'> {
  if ('key' in name) return { path, headers: { 'Idempotency-Key': name.key, ...headers } };
  return { path: `${path}?${new URLSearchParams({ ...name })}`, headers };
}

export const waiting = { Prefer: `wait=${WAIT_SECONDS}` };

/** Sends calls at once, payments only if `mayPay` says so now; `show` is called before the answers and after them. */
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

/** The key that the answer gives. Undefined if the answer refuses, or is not the service's own. */
export function keyIn({ outcomes: [outcome] }: Exchange): string | undefined {
  if (outcome === undefined || 'problem' in outcome || outcome.status !== 200) return undefined;
  return validKey(stringIn(outcome));
}

/** Answers to payments that have a row: paid, declined, under way, closed, and unknown. Others may name a key that nothing was begun for. */
const BEGUN = [200, 402, 409, 410, 504];

/** The key of the payment, which every answer to an order names. Undefined if no answer shows that a payment was begun. */
export function keyOfPayment({ outcomes }: Exchange): string | undefined {
  const answer = outcomes.find((outcome) => !('problem' in outcome) && outcome.isOwn && BEGUN.includes(outcome.status));
  return answer && validKey(headerIn(answer, 'idempotency-key'));
}

const validKey = (key: string | undefined) => (key !== undefined && KEY.test(key) ? key : undefined);
