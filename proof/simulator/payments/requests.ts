import type { PayAnswer } from '#idempay/payments/answers.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { NoAnswer, Request } from '../processes.js';
import type { KeyScript, PlannedRequest } from './plan.js';

/** What a client knows of one request to pay. */
export interface Asked extends Request<PayAnswer> {
  readonly kind: PlannedRequest['kind'];
  readonly amount: string;
  readonly patienceMs: number;
  /** The row that there was when it was sent: its key is no longer a key that nobody knows. */
  readonly knownAtSend: boolean;
  /** How long its process was stopped meanwhile. */
  stoppedMs?: number;
}

/** A client asked for the outcome only. */
interface Inquiry extends Request<FinalOutcome | 'none'> {
  readonly finalAtSend: boolean;
}

/** What is known of one key at the end. */
export interface Issued {
  readonly key: string;
  readonly script: KeyScript;
  /** Its client asked for it then. */
  readonly askedForAt: number;
  readonly asked: Asked[];
  readonly inquiries: Inquiry[];
}

/** Nobody asks again after that. */
const FINAL_STATES: readonly string[] = ['processed', 'replayed', 'invalid key', 'mismatch'];

export function isFinal({ answer }: Asked): boolean {
  return typeof answer === 'object' && FINAL_STATES.includes(answer.state);
}

export function describe(answer: PayAnswer | NoAnswer | undefined): string {
  if (answer === undefined || typeof answer === 'string') return answer ?? 'nothing';
  return 'final' in answer ? `${answer.state} ${describeOutcome(answer.final)}` : answer.state;
}

export function describeOutcome({ outcome }: FinalOutcome): string {
  return outcome.state === 'COMPLETED' ? outcome.transactionId : `declined (${outcome.reason})`;
}
