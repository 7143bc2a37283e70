/** The meanings of a command's exit codes (docs/reference/command-line.md). Scripts depend on them: none ever gets another meaning. */
export const EXIT = {
  done: 0,
  /** Wrong arguments, settings or file, or refused by the service as wrong. Nothing was done; an import says how far it is. */
  mistake: 1,
  declined: 3,
  /** It is not known whether it was done; the message says how to continue. A fault of this program as well. */
  unknown: 4,
  /** Not reachable, busy, or no time left. Nothing was done. */
  unavailable: 5,
  /** No valid credentials, or not their scope. */
  notAuthorized: 6,
  notFound: 7,
  /** Something else changed it, its state does not allow it, or the key belongs to other content. */
  conflict: 8,
  /** An import is complete, and some of its rows were rejected. */
  rejectedRows: 9,
  /** The answer did not come from Idempay. */
  unexpectedAnswer: 10,
  /** The service refuses the key and cannot say whether it was charged. Trying again does not help: a person looks at the processor. */
  deadKey: 11,
  /** It is done, but standard output cannot be written. */
  outputFailed: 12,
  /** A statement and the payments of its day differ. Lines that could not be read may hide more differences. */
  differences: 13,
  /** No difference was found, but some lines of the statement could not be read, it is no statement at all, or one of another day. */
  unreadable: 14,
  /** An adapter does not keep the contract of processors. It was charged for real. */
  contractBroken: 15,
  /** The payment waits for its payer, or the payment or the refund for a bank. Run the same command again to learn its outcome. */
  pending: 16,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
