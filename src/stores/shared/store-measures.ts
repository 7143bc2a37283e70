/** The names of the stores in measurements. */
export type MeasuredStore = 'redis' | 'postgresql' | 'sqlite';

/**
 * Measurements of the stores by their adapters. Everything that is called for an operation is asked for once, when the adapter is
 * made, so that an operation costs no look-up.
 */
export interface StoreMeasures {
  /** The same for the same names. */
  roundTrips(store: MeasuredStore, operation: string): RoundTrips;
  queue(store: MeasuredStore, queue: string): QueueMeasure;
  /** The embedded store committed: it took `ms` milliseconds from COMMIT until it was on the disk. */
  committed(ms: number): void;
  /** The embedded store's log has this size; the next checkpoint moves it into the file. */
  walBytes(bytes: number): void;
}

/** One kind of operation, from when it is sent until its reply has come or is given up. */
export interface RoundTrips {
  /** Returns a value for `end`. */
  begin(): number;
  end(begun: number): void;
}

/** Measurements of a queue whose entries are sent together. */
export interface QueueMeasure {
  /** `length` is called when the metrics are read. */
  watch(length: () => number): void;
  batch(size: number): void;
}

const IGNORED: RoundTrips = { begin: () => 0, end() {} };
export const IGNORED_QUEUE: QueueMeasure = { watch() {}, batch() {} };

/** For adapters without measurements. */
export const NOT_MEASURED: StoreMeasures = {
  roundTrips: () => IGNORED,
  queue: () => IGNORED_QUEUE,
  committed() {},
  walBytes() {},
};
