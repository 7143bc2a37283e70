import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';

/** What stands for a decline where a transaction id stands for a completed payment. */
export const DECLINED = 'declined';

/** One request for a key and what came back. All times are of one monotonic clock, in milliseconds. */
export interface Send {
  readonly what: 'pay' | 'status';
  /** Of the process it was sent to. */
  readonly to: string;
  readonly sentAt: number;
  /** When the answer came, or when it was known that none will. */
  endedAt: number;
  /** 0: no answer. */
  status: number;
  /** A transaction id, or DECLINED. */
  outcome?: string;
  /** Told as new, not as a repeat. */
  isFirst?: true;
  /** Of an answer that is none of those which were promised. */
  text?: string;
  /** The connection broke although its process was left alone all the while. */
  cutByTheLiving?: true;
}

/** What the clients know of one key, in the order of sending. */
export interface KeyHistory {
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  /** When it was asked for. */
  readonly issuedAt: number;
  readonly sends: Send[];
  /** How long after everything was healed its outcome, or that there will be none, was known; undefined: never. */
  finishedAfterMs?: number;
}

/** A payment as the service shows it after healing. */
export interface KeptPayment {
  readonly idempotencyKey: string;
  readonly state: string;
  readonly amount: string | null;
  readonly currency: string | null;
  readonly transactionId: string | null;
  readonly attempts: number;
}

export interface Period {
  readonly from: number;
  to: number;
}

/** All that the judge looks at: two logs kept outside the system, and what the system shows once it is at rest. */
export interface PaymentEvidence {
  readonly keys: readonly KeyHistory[];
  readonly charges: readonly ChargeLine[];
  readonly kept: readonly KeptPayment[];
  /** When the key store may have forgotten what it held, or have gone back in time. */
  readonly forgettings: readonly Period[];
  /** When something was killed, stopped or cut: a lock may have been left behind. */
  readonly disturbances: readonly Period[];
  /** Keys whose payments an operator declined, or may have declined: nothing was charged for those. */
  readonly verdicts: ReadonlySet<string>;
  readonly leaseMs: number;
  /** A key that has no outcome so long after healing is stuck. */
  readonly stuckAfterMs: number;
}

export interface Violation {
  readonly rule: string;
  /** The key, the id or the list it is about. */
  readonly subject: string;
  readonly what: string;
  /** The subject's own journal. */
  readonly journal: readonly unknown[];
}
