/** Events that an operator may have to know of. Each names the endpoint. */
export interface WebhookEvents {
  /** A store has failed, and is asked again. */
  fault(fault: unknown): void;
  setAside(endpoint: string, cause: string): void;
  /** `most` settlements are set aside, so the others wait. */
  standsStill(endpoint: string, most: number): void;
  stoppedByReceiver(endpoint: string): void;
  /** Settlements were removed before they were delivered. */
  passedByRetention(endpoint: string): void;
  /** Rows may have been lost, so that the endpoint gets some settlements once more. */
  beganEarlier(endpoint: string): void;
  /** A settlement that was set aside was removed before it was taken. */
  setAsideRemoved(endpoint: string): void;
}

/** The state of one endpoint, as this process knows it. */
export interface WebhookCounts {
  /** True if this process serves it. The numbers below are known only then. */
  isServed: boolean;
  isStopped: boolean;
  /** The age of the oldest settlement that is not taken; 0 if there is none. */
  behindMs: number;
  setAside: number;
  /** Tries by this process. */
  readonly deliveries: { taken: number; refused: number };
}
