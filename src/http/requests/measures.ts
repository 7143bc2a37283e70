/** The measures of requests. `ended` and `paid` are called for each, so they must cost next to nothing. */
export interface HttpMeasures {
  /** Called once for each route; `path` is its pattern, or NO_ROUTE. */
  route(path: string): RouteMeasure;
  /** One answer to `POST /api/payment`; `transactionId` is the one that it names. */
  paid(outcome: PaymentOutcome, transactionId?: string): void;
  refused(reason: RefusalReason): void;
}

export interface RouteMeasure {
  ended(method: string, status: number, ms: number): void;
}

/** The `path` of requests that match no route. */
export const NO_ROUTE = 'none';

/** The outcome of a request to pay, as its answer reports it (rule O2). */
export const PAYMENT_OUTCOMES = [
  /** Paid, or declined, by this very request. */
  'processed',
  'declined',
  /** The stored result, of either. */
  'replayed',
  'in_progress',
  'mismatch',
  /** It was closed, by a cancellation. */
  'cancelled',
  /** Another attempt at the reference decides, or has decided. */
  'out_of_turn',
  'invalid_key',
  /** Any other request that is not acceptable: its body, its credentials, its form. */
  'refused',
  'refused_for_load',
  'not_sent',
  /** The outcome of the payment takes time: its payer must confirm it, or the processor waits. */
  'pending',
  'unknown',
  /** A store could not serve it. */
  'unavailable',
  /** An internal error. */
  'error',
] as const;
export type PaymentOutcome = (typeof PAYMENT_OUTCOMES)[number];

/** Why a request was refused before its content was judged: credentials, or a limit. */
export const REFUSAL_REASONS = [
  /** Without credentials, or with invalid ones. */
  'credentials',
  /** They cannot be checked while the issuer's keys are unavailable. */
  'credentials_unchecked',
  'scope',
  /** RATE_LIMIT_PER_MINUTE. */
  'rate_limit',
  /** Too many bytes of bodies were there at once. */
  'bodies',
  /** Keys without a reference, while Redis is nearly full. */
  'unpaid_keys',
  /** MAX_CONNECTIONS. */
  'connections',
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

export const NOT_MEASURED: HttpMeasures = {
  route: () => ({ ended() {} }),
  paid() {},
  refused() {},
};
