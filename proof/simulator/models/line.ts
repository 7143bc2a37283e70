/** A server's reaction to a request: it replies, at once or later, or refuses. */
type Serve<T> = (reply: (result: T) => void, refuse: (fault: unknown) => void) => void;

/** One process's way to one server. */
export interface Line {
  /** The name of the process that it belongs to: the subject of what is about no key. */
  readonly caller: string;
  /**
   * Resolves with the reply. Rejects with the refusal, or with StoreUnavailable: `unchanged` if the request surely was not carried out,
   * `unknown` if that is not known. `subjects`: the keys that it is about.
   */
  send<T>(operation: string, subjects: readonly string[], serve: Serve<T>): Promise<T>;
  /** The messages that the server sends to the process unasked. */
  deliver(subject: string, what: string, hear: () => void): void;
}

/** Nothing is lost and nothing takes time: for suites that hold a model against its server. */
export const directLine: Line = {
  caller: 'a test',
  send: (_operation, _subjects, serve) => new Promise((resolve, reject) => setImmediate(() => serve(resolve, reject))),
  deliver: (_subject, _what, hear) => void setImmediate(hear),
};

/** Statements that a process sends all the time by itself: they get no line in a trace, and no history waits for their end. */
export const ROUTINE: ReadonlySet<string> = new Set([
  ...'database_now confirm_durable count_abandoned take_over_longest_due take_over_latest_due may_be_lost may_be_removed backlog'.split(
    ' ',
  ),
  ...'note_elapsed begin_hour retention_time old_hour forget_hours advance_horizon remove_settled'.split(' '),
  ...'takeOverDue noteElapsed removeSettled'.split(' '),
  ...'cache_epoch cache_epoch_of'.split(' '),
  ...'settlement_clock settlement_writers settlement_ends'.split(' '),
  ...'take_endpoint advance_endpoint due_settlements takeEndpoint advanceEndpoint'.split(' '),
]);
