/** The types that users of the fake see. They name no type of the service's own, because these are not in the package. */

/** A request as the fake service sees it. */
export interface FakeRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface FakeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A charge of the fake processor. */
export interface FakeCharge {
  readonly key: string;
  readonly transactionId: string;
  /** With all decimals of the currency. */
  readonly amount: string;
  readonly currency: string;
  /** The content of the request that was charged; undefined if it had none. */
  readonly source?: string | undefined;
  readonly description?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly returnUrl?: string | undefined;
}

/** A refund of the fake processor. */
export interface FakeRefund {
  /** The key of the payment. */
  readonly payment: string;
  /** The refund's own key. */
  readonly key: string;
  readonly transactionId: string;
  /** The part that was given back, with all decimals of the currency. */
  readonly amount: string;
  readonly currency: string;
  readonly reason?: string | undefined;
}

/** A charge that waits for its payer, or a refund that takes time. */
export interface FakePending {
  /** The expected end, in milliseconds since the epoch. If omitted, it is in an hour. */
  readonly untilMs?: number;
  /** The action, which only a payment with a `returnUrl` gets, as at a processor. A refund has none. */
  readonly action?: Readonly<Record<string, string>>;
}

/** The fake on a port. */
export interface FakeListener {
  /** The `baseUrl` of a client. */
  readonly url: string;
  close(): Promise<void>;
}

/** A permission of an API key, as in `API_KEYS_FILE` of the service. The package has no other declarations of the service, so this one stands alone. */
export type FakeScope =
  | 'payments:write'
  | 'payments:read'
  | 'payments:read:all'
  | 'refunds:write'
  | 'transactions:read'
  | 'transactions:write'
  | 'operations'
  | 'metrics';
