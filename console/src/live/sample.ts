/** The answer to `GET /api/live`. Times are milliseconds since the epoch, by the clock of the process. */
export interface LiveSamples {
  readonly intervalMs: number;
  readonly keepMs: number;
  /** Oldest first. */
  readonly samples: readonly Sample[];
}

/** Counts of values up to each bound (seconds) and above the one before; the last one of all above. */
export interface Buckets {
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
}

/** One process, in the `spanMs` before `at`. */
export interface Sample {
  readonly type: 'sample';
  readonly at: number;
  readonly instance: string;
  readonly process: {
    readonly host: string;
    readonly pid: number;
    readonly version: string;
    readonly startedAt: number;
  };
  readonly spanMs: number;
  readonly payments: Readonly<Record<string, number>>;
  readonly latency: Buckets;
  readonly cache: { readonly hit: number; readonly miss: number; readonly bypass: number };
  readonly lists: { readonly sent: number; readonly notModified: number };
  readonly attempts: { readonly request: number; readonly recovery: number };
  readonly waiters: number;
  readonly backlog: { readonly payments: number; readonly oldestMs: number } | null;
  readonly queues: Readonly<Record<string, number>>;
  readonly commit: Buckets;
  readonly stores: Readonly<Record<string, boolean>>;
  readonly processorUp: boolean;
  readonly memoryBytes: number;
  readonly loopDelay: Buckets;
}
