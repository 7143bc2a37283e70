/** The names of the stores in measurements. */
export type MeasuredStore = 'redis' | 'postgresql' | 'sqlite';

/**
 * What the adapters measure of their stores. Everything that is called for an operation is asked for once, when the adapter is
 * made, so that an operation costs no look-up.
 */
export interface StoreMeasures {
  /** The same for the same names. */
  roundTrips(store: MeasuredStore, operation: string): RoundTrips;
  queue(store: MeasuredStore, queue: string): QueueMeasure;
  /** Of the embedded store: milliseconds from COMMIT to its end, on the disk. */
  committed(ms: number): void;
  /** Of the embedded store: the log that the next checkpoint moves into the file. */
  walBytes(bytes: number): void;
}

/** One kind of operation, from when it is sent until its reply has come or is given up. */
export interface RoundTrips {
  /** Returns what `end` is given. */
  begin(): number;
  end(begun: number): void;
}

/** What waits to be sent together. */
export interface QueueMeasure {
  /** `length` is asked when somebody looks. */
  watch(length: () => number): void;
  batch(size: number): void;
}

const IGNORED: RoundTrips = { begin: () => 0, end() {} };
export const IGNORED_QUEUE: QueueMeasure = { watch() {}, batch() {} };

/** For adapters that nobody looks at. */
export const NOT_MEASURED: StoreMeasures = {
  roundTrips: () => IGNORED,
  queue: () => IGNORED_QUEUE,
  committed() {},
  walBytes() {},
};
