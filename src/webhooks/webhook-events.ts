/** Events that an operator may have to know of. Each names the endpoint. */
export interface WebhookEvents {
  /** A store did not do what was asked; it is asked again. */
  fault(fault: unknown): void;
  setAside(endpoint: string, cause: string): void;
  /** So many are set aside that the others wait. */
  standsStill(endpoint: string, most: number): void;
  stoppedByReceiver(endpoint: string): void;
  /** Settlements were removed before they were delivered. */
  passedByRetention(endpoint: string): void;
  /** Rows may have been lost, so that the endpoint gets some settlements once more. */
  beganEarlier(endpoint: string): void;
  /** A settlement that was set aside was removed before it was taken. */
  setAsideRemoved(endpoint: string): void;
}

/** What this process knows of one endpoint. */
export interface WebhookCounts {
  /** By this process. The numbers below are known only then. */
  isServed: boolean;
  isStopped: boolean;
  /** Since the oldest settlement that is not taken; 0 if there is none. */
  behindMs: number;
  setAside: number;
  /** Tries by this process. */
  readonly deliveries: { taken: number; refused: number };
}
