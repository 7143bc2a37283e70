import type { PayAnswer } from '#idempay/payments/answers.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { NoAnswer } from '../processes.js';
import type { KeyScript, PlannedRequest } from './plan.js';

export type Answer = PayAnswer | NoAnswer;

/** What a client knows of one request to pay. */
export interface Asked {
  readonly kind: PlannedRequest['kind'];
  readonly amount: string;
  readonly patienceMs: number;
  readonly sentAt: number;
  /** The row that there was when it was sent: its key is no longer a key that nobody knows. */
  readonly knownAtSend: boolean;
  /** How long its process had been stopped in all, when it was sent and when it was answered. */
  readonly pausedMsAtSend: number;
  pausedMsAtAnswer: number;
  answeredAt: number | undefined;
  answer: Answer | undefined;
}

/** A client asked for the outcome only. */
export interface Inquiry {
  readonly sentAt: number;
  readonly finalAtSend: boolean;
  answeredAt: number | undefined;
  answer: FinalOutcome | 'none' | NoAnswer | undefined;
}

/** What is known of one key at the end. */
export interface Issued {
  readonly key: string;
  readonly script: KeyScript;
  /** It was generated between these two. */
  readonly askedForAt: number;
  readonly issuedAt: number;
  readonly asked: Asked[];
  readonly inquiries: Inquiry[];
}

const FINAL_STATES: readonly PayAnswer['state'][] = ['processed', 'replayed', 'invalid key', 'mismatch'];

/** Nobody asks again after that. */
export function isFinal(answer: Answer | undefined): boolean {
  return typeof answer === 'object' && FINAL_STATES.includes(answer.state);
}

export function describe(answer: Answer | undefined): string {
  if (answer === undefined || typeof answer === 'string') return answer ?? 'nothing';
  if (answer.state !== 'processed' && answer.state !== 'replayed') return answer.state;
  return `${answer.state} ${describeOutcome(answer.final)}`;
}

export function describeOutcome({ outcome }: FinalOutcome): string {
  return outcome.state === 'COMPLETED' ? outcome.transactionId : `declined (${outcome.reason})`;
}
