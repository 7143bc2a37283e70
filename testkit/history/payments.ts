import type { Reply } from './history.js';

/** Stands for a decline, as a transaction id stands for a completed payment. */
export const DECLINED = 'declined';
/** The same for a payment that was closed. */
export const CANCELLED = 'cancelled';

export interface Exchange {
  readonly what: 'pay' | 'status' | 'cancel';
  readonly to: string;
  readonly sentAt: number;
  /** When the answer came, or when it was known that none will. */
  endedAt: number;
  status: number;
  failure?: Reply['failure'];
  outcome?: string;
  /** The key that the answer names: the reference's key, if the request names one. */
  key?: string;
  isFirst?: true;
  /** Answered that nothing was charged yet and that it will be (rule P15): the payment has its row. */
  isClaimed?: true;
  /** A cancellation was answered that the payment cannot be ended, and is under way as before. */
  isNotEnded?: true;
  /** The text of an answer that is not one of the promised ones. */
  text?: string;
}

/** An attempt at what is paid once. */
export interface Order {
  readonly reference: string;
  readonly attempt: number;
}

export interface KeyHistory {
  /** '' until an answer names it, if the payment is known by its reference. */
  key: string;
  readonly order?: Order;
  /** The content of its first request. */
  readonly amount: string;
  readonly currency: string;
  /** The contents of all requests that may have made its row, as `textOf` writes them. Omitted if none was sent. */
  contents?: Set<string>;
  readonly issuedAt: number;
  /** Also each time that the key of a reference is asked for again. */
  receivedAt: number;
  readonly exchanges: Exchange[];
  /** How long after healing the outcome, or its absence, was known; undefined if it never was. */
  finishedAfterMs?: number;
}

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: (TXN\d+)"$/;
const REPEAT_TEXT = /^"Transaction ID: (TXN\d+)"$/;
/** The answer if the charge surely was not sent (rule P15). */
export const CLAIMED_TEXT = 'The payment is under way and will be charged';
/** The meaning of the other answers, by their status. */
const TEXTS: Readonly<Record<number, string>> = {
  400: '"message":"Invalid or missing Idempotency-Key."',
  402: '"message":"Payment declined: insufficient funds',
  404: '"message":"No payment found for this Idempotency-Key."',
  409: '"message":"Payment is already being processed."',
  410: '"message":"The payment was cancelled.',
  503: '"status":503',
  504: '"message":"The outcome of the payment is not known yet',
};

/** A decline by a cancellation, which ended the charge at the processor, or reached it before it was sent (rule P25). */
const ENDED_TEXT = /"message":"Payment declined: (?:ended by the shop|cancelled before it was sent)/;
const CANCELLED_TEXT = '"Payment cancelled."';
/** Answered to a cancellation that came too late. */
const COMPLETED_BEFORE = /"message":"The payment is completed with Transaction ID: (TXN\d+)\./;
const DECLINED_BEFORE = /"message":"Attempt \d+ was declined\. To close the order, /;
const NOT_ENDED = '"message":"The payment cannot be ended at the processor now, so it is under way as before';
/** Answered to an attempt that was declined, when another one follows it. */
const SUPERSEDED = /"message":"Attempt \d+ was declined, and attempt \d+ (is|was) /;

export function begun(key: KeyHistory, what: Exchange['what'], to: string): Exchange {
  const exchange = { what, to, sentAt: performance.now(), endedAt: Number.POSITIVE_INFINITY, status: 0 };
  key.exchanges.push(exchange);
  return exchange;
}

export function answered(exchange: Exchange, reply: Omit<Reply, 'sentAt'>): Exchange {
  const { status, headers, text, failure, endedAt } = reply;
  Object.assign(exchange, { status, endedAt, ...(failure && { failure }) });
  const isFirst = exchange.what === 'pay' && headers['idempotent-replayed'] !== 'true';
  const outcome = exchange.what === 'cancel' ? toldToCancel(reply) : toldToPay(reply, isFirst);
  if (outcome !== undefined) exchange.outcome = outcome;
  else if (exchange.what === 'cancel' && status === 409 && text.includes(NOT_ENDED)) exchange.isNotEnded = true;
  else if (status !== 0 && !text.includes(TEXTS[status] ?? '\0')) exchange.text = text;
  const key = headers['idempotency-key'];
  if (typeof key === 'string') exchange.key = key;
  if (isFirst && (status === 200 || status === 402)) exchange.isFirst = true;
  if (text.includes(CLAIMED_TEXT)) exchange.isClaimed = true;
  return exchange;
}

function toldToPay({ status, text }: Pick<Reply, 'status' | 'text'>, isFirst: boolean): string | undefined {
  if (status === 200) return (isFirst ? FIRST_TEXT : REPEAT_TEXT).exec(text)?.[1];
  if (status === 402) return text.includes(TEXTS[402] as string) || ENDED_TEXT.test(text) ? DECLINED : undefined;
  if (status === 422) return SUPERSEDED.test(text) ? DECLINED : undefined;
  return status === 410 && text.includes(TEXTS[410] as string) ? CANCELLED : undefined;
}

function toldToCancel({ status, text }: Pick<Reply, 'status' | 'text'>): string | undefined {
  if (status === 200) return text === CANCELLED_TEXT ? CANCELLED : undefined;
  if (status !== 422) return undefined;
  return COMPLETED_BEFORE.exec(text)?.[1] ?? (DECLINED_BEFORE.test(text) ? DECLINED : undefined);
}

export const isPaid = (outcome: string) => outcome !== DECLINED && outcome !== CANCELLED;

export const outcomeOf = ({ exchanges }: KeyHistory) => exchanges.find(({ outcome }) => outcome !== undefined)?.outcome;
