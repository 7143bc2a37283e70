import type { Clock } from '../platform/clock.js';
import { within } from '../platform/time-limit.js';
import type { KeyValueStoreReport, StoredValue, StoreOfRecordReport, StoreStatistics } from './store-reports.js';

/** Under the one second that rule H1 promises, with room for the answer itself. */
const REPORT_LIMIT_MS = 800;

const NOT_SAID = Promise.resolve(undefined);

export interface Health {
  /** Undefined when the store did not answer in time. */
  status(): Promise<{ store: string; latencyMs: number } | undefined>;
  value(key: string): Promise<StoredValue | undefined>;
  statistics(): Promise<StoreStatistics | undefined>;
  storeOfRecordAnswers(): Promise<boolean>;
  /** Undefined if there is no other process, or if the key-value store did not say in time. */
  storeOfRecordIsReachedByAnother(): Promise<boolean | undefined>;
}

export function createHealth(report: KeyValueStoreReport, storeOfRecord: StoreOfRecordReport, clock: Clock): Health {
  return {
    async status() {
      const askedAt = clock.monotonic();
      const answered = await withinLimit(report.ping().then(() => true));
      if (!answered) return undefined;
      return { store: report.store, latencyMs: Math.round((clock.monotonic() - askedAt) * 1000) / 1000 };
    },
    value: (key) => report.value(key),
    statistics: () => withinLimit(report.statistics()),
    storeOfRecordAnswers: async () => (await withinLimit(storeOfRecord.ping().then(() => true))) === true,
    storeOfRecordIsReachedByAnother: async () => withinLimit(storeOfRecord.isReachedByAnother?.() ?? NOT_SAID),
  };
}

/** The report, or undefined when it failed or took too long: a hanging store must not hang its own health check. */
function withinLimit<Report>(report: Promise<Report>): Promise<Report | undefined> {
  return within(
    REPORT_LIMIT_MS,
    report.catch(() => undefined),
    undefined,
  );
}
