import type { Reply } from './history.js';

/** What stands for a decline where a transaction id stands for a completed payment. */
export const DECLINED = 'declined';

export interface Exchange {
  readonly what: 'pay' | 'status';
  readonly to: string;
  readonly sentAt: number;
  /** When the answer came, or when it was known that none will. */
  endedAt: number;
  status: number;
  failure?: Reply['failure'];
  outcome?: string;
  isFirst?: true;
  /** Answered that nothing was charged yet and that it will be (decisions P15): the payment has its row. */
  isClaimed?: true;
  /** The text of an answer that is not one of the promised ones. */
  text?: string;
}

export interface KeyHistory {
  readonly key: string;
  /** What its first request is to pay. */
  readonly amount: string;
  readonly currency: string;
  readonly issuedAt: number;
  readonly receivedAt: number;
  readonly exchanges: Exchange[];
  /** How long after healing the outcome, or its absence, was known; undefined if it never was. */
  finishedAfterMs?: number;
}

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: (TXN\d+)"$/;
const REPEAT_TEXT = /^"Transaction ID: (TXN\d+)"$/;
/** Answered where the charge surely was not sent (decisions P15). */
export const CLAIMED_TEXT = 'The payment is under way and will be charged';
/** What the other answers say, by their status. */
const TEXTS: Readonly<Record<number, string>> = {
  400: '"message":"Invalid or missing Idempotency-Key."',
  402: '"message":"Payment declined: insufficient funds"',
  404: '"message":"No payment found for this Idempotency-Key."',
  409: '"message":"Payment is already being processed."',
  503: '"status":503',
  504: '"message":"The outcome of the payment is not known yet',
};

export function begun(key: KeyHistory, what: Exchange['what'], to: string): Exchange {
  const exchange = { what, to, sentAt: performance.now(), endedAt: Number.POSITIVE_INFINITY, status: 0 };
  key.exchanges.push(exchange);
  return exchange;
}

export function answered(exchange: Exchange, reply: Omit<Reply, 'sentAt'>): Exchange {
  const { status, headers, text, failure, endedAt } = reply;
  Object.assign(exchange, { status, endedAt, ...(failure && { failure }) });
  const isFirst = exchange.what === 'pay' && headers['idempotent-replayed'] !== 'true';
  const id = status === 200 ? (isFirst ? FIRST_TEXT : REPEAT_TEXT).exec(text)?.[1] : undefined;
  if (id !== undefined) exchange.outcome = id;
  else if (status !== 0 && !text.includes(TEXTS[status] ?? '\0')) exchange.text = text;
  else if (status === 402) exchange.outcome = DECLINED;
  if (isFirst && (status === 200 || status === 402)) exchange.isFirst = true;
  if (text.includes(CLAIMED_TEXT)) exchange.isClaimed = true;
  return exchange;
}

export const outcomeOf = ({ exchanges }: KeyHistory) => exchanges.find(({ outcome }) => outcome !== undefined)?.outcome;
