import type { Buckets } from '../platform/buckets.js';
import type { MeasuredStore, RoundTrips, StoreMeasures } from '../stores/shared/store-measures.js';
import type { Exposition, Reading } from './exposition.js';

const SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/** The statements of `stores/postgres` that do so. */
const CLAIMS_AND_SETTLES = ['claim', 'settle', 'settle_noted'];

const tripLabels = (store: MeasuredStore, operation: string) => ({ store, operation });

export interface MeasuredStores extends StoreMeasures {
  /** Operations that wait to be sent, by `STORE QUEUE`. */
  queues(): Readonly<Record<string, number>>;
  /** Commits of the embedded store. */
  commits(): Buckets;
  /** The statements of PostgreSQL that a payment waits for. */
  claimsAndSettles(): Buckets;
}

/** Round trips, queues and batches of the stores, and what the embedded one writes to the disk. */
export function measureStores(exposition: Exposition): MeasuredStores {
  const seconds = exposition.histogram(
    'idempay_store_round_trip_seconds',
    'Scripts (one for many calls), statements, or batches of the database file, from when they are sent until the reply has come or is given up.',
    SECONDS,
  );
  const trips = new Map<string, RoundTrips>();
  const inFlight = new Map<MeasuredStore, { count: number }>();
  exposition.gauge('idempay_store_round_trips_in_flight', 'Operations that wait for their reply now.', function* () {
    for (const [store, { count }] of inFlight) yield [{ store }, count];
  });

  function measuredTrips(store: MeasuredStore, operation: string): RoundTrips {
    const took = seconds.of(tripLabels(store, operation));
    const ofStore = inFlight.get(store) ?? { count: 0 };
    inFlight.set(store, ofStore);
    return {
      begin() {
        ofStore.count += 1;
        return performance.now();
      },
      end(begun) {
        ofStore.count -= 1;
        took((performance.now() - begun) / 1000);
      },
    };
  }

  const lengths: { readonly labels: Record<'store' | 'queue', string>; readonly read: () => number }[] = [];
  exposition.gauge('idempay_store_queue_length', 'Operations waiting to be sent.', () =>
    lengths.map(({ labels, read }): Reading => [labels, read()]),
  );
  const batches = exposition.histogram(
    'idempay_store_batch_size',
    'How many operations were sent together.',
    BATCH_SIZES,
  );

  const commits = exposition.histogram(
    'idempay_store_commit_seconds',
    'Duration of commits of the embedded store, on the disk.',
    SECONDS,
  );
  const committed = commits.of();
  let walBytes: number | undefined;
  exposition.gauge('idempay_store_wal_bytes', 'Size of the write-ahead log of the embedded store.', () =>
    walBytes === undefined ? [] : [[{}, walBytes]],
  );

  return {
    roundTrips(store, operation) {
      const name = `${store} ${operation}`;
      const known = trips.get(name) ?? measuredTrips(store, operation);
      trips.set(name, known);
      return known;
    },
    queue(store, queue) {
      const labels = { store, queue };
      return { watch: (read) => void lengths.push({ labels, read }), batch: batches.of(labels) };
    },
    committed: (ms) => committed(ms / 1000),
    walBytes(bytes) {
      walBytes = bytes;
    },
    queues() {
      const sums: Record<string, number> = {};
      for (const { labels, read } of lengths) {
        const name = `${labels.store} ${labels.queue}`;
        sums[name] = (sums[name] ?? 0) + read();
      }
      return sums;
    },
    commits: () => commits.buckets({}),
    claimsAndSettles: () =>
      seconds.buckets(...CLAIMS_AND_SETTLES.map((operation) => tripLabels('postgresql', operation))),
  };
}

/** Shows if each store served when it was last asked. */
export function showStores(
  exposition: Exposition,
  stores: readonly MeasuredStore[],
  isUp: (store: MeasuredStore) => boolean,
) {
  exposition.gauge('idempay_store_up', '1 where the store served and took writes when it was last asked, else 0.', () =>
    stores.map((store) => [{ store }, isUp(store) ? 1 : 0]),
  );
}
