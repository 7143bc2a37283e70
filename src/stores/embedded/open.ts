import { join } from 'node:path';
import type { Clock } from '../../platform/clock.js';
import { CannotOpen, type Deployment, type Notices, type StoreEvents } from '../shared/deployment.js';
import { REPLACED } from '../shared/replaced-database.js';
import { NOT_MEASURED, type StoreMeasures } from '../shared/store-measures.js';
import { startSweeping } from '../shared/sweep.js';
import { DATABASE } from './file/exclusive-folder.js';
import { watchWalSize } from './file/write-ahead-log.js';
import { createEmbeddedKeyStore } from './key-store.js';
import { createEmbeddedReport, createStoreCounters } from './key-value-store-report.js';
import { readAdoption } from './payments/adopt.js';
import { createEmbeddedLedger } from './payments/ledger.js';
import { createEmbeddedPaymentHistory } from './payments/payment-history.js';
import { readProcessorNames } from './payments/processor-names.js';
import { createEmbeddedRefundLedger } from './payments/refunds.js';
import { createEmbeddedSettlements } from './payments/settlement-reads.js';
import { Reader } from './reader.js';
import { watchStoreClock } from './store-clock.js';
import { createEmbeddedTransactionCache } from './transaction-cache.js';
import { createEmbeddedTransactionStore } from './transactions/transaction-store.js';
import { createEmbeddedEndpointRows } from './webhooks/endpoint-rows.js';
import { Writer } from './writer/writer.js';

const SWEEP_KEYS_EVERY_MS = 1_000;
/** The oldest are found by an index, so that nothing is gained by looking more often. */
const SWEEP_CREATION_KEYS_EVERY_MS = 10_000;

/** Opens everything in one folder, for this process alone. Throws CannotOpen with a sentence for the operator. */
export async function openEmbedded(options: {
  dataDir: string;
  transactionCacheTtlMs: number;
  clock: Clock;
  notices?: Notices;
  events?: StoreEvents;
  measures?: StoreMeasures;
  /** A folder of migrations in place of this version's. */
  migrations?: URL | undefined;
}): Promise<Deployment> {
  const { dataDir, clock, measures = NOT_MEASURED } = options;
  try {
    const path = join(dataDir, DATABASE);
    let reportBroken: (error: Error) => void = () => {};
    const broken = new Promise<Error>((resolve) => {
      reportBroken = resolve;
    });
    const onReplaced = () => options.notices?.warn(REPLACED);
    const writer = await Writer.open(dataDir, { onBroken: reportBroken, onReplaced }, clock, {
      events: options.events,
      measures,
      migrations: options.migrations,
    });
    const reader = Reader.ofFile(path, reportBroken);
    const { storeClock } = writer;
    const counters = createStoreCounters();
    const transactionCache = createEmbeddedTransactionCache(options.transactionCacheTtlMs, counters);
    const sweepings = [
      startSweeping(SWEEP_KEYS_EVERY_MS, async (limit) => {
        const removed = await writer.write('sweepKeys', { limit });
        counters.expiredKeys += removed;
        return removed;
      }),
      startSweeping(SWEEP_CREATION_KEYS_EVERY_MS, (limit) => writer.write('sweepCreationKeys', { limit })),
    ];
    const keyValueStore = createEmbeddedReport(writer, reader, { cache: transactionCache, counters }, storeClock);
    const clockWatch = watchStoreClock(storeClock, clock, (sentence) => options.notices?.warn(sentence));
    const walSize = watchWalSize(path, clock, measures.walBytes);

    const { id } = reader.prepare('SELECT id FROM deployment').get() as { id: string };
    return {
      id,
      processors: readProcessorNames(reader),
      adoption: readAdoption(reader),
      clock: storeClock,
      keys: createEmbeddedKeyStore(writer, reader, counters),
      ledger: createEmbeddedLedger(writer, reader, storeClock, clock.now),
      refunds: createEmbeddedRefundLedger(writer, reader, storeClock, clock.now),
      paymentHistory: createEmbeddedPaymentHistory(reader, storeClock.now, clock.now),
      settlements: createEmbeddedSettlements(writer, reader, clock.monotonic),
      endpointRows: createEmbeddedEndpointRows(writer, reader, storeClock),
      transactions: createEmbeddedTransactionStore(writer, reader, clock),
      transactionCache,
      keyValueStore,
      // One file holds both stores. After a refused commit each look tries a commit: a process that is not ready gets no
      // requests, so nothing else would show that commits succeed again.
      storeOfRecord: { ping: () => (writer.isRefused ? writer.write('tryCommit') : keyValueStore.ping()) },
      broken,
      async close() {
        for (const sweeping of sweepings) sweeping.stop();
        walSize.stop();
        clockWatch.stop();
        // The last connection to close is the writer's: it moves the log into the file.
        reader.close();
        await writer.close();
      },
    };
  } catch (error) {
    // An error from the writer thread loses its class between the threads.
    throw (error as Error).name === CannotOpen.name
      ? new CannotOpen((error as Error).message, { cause: error })
      : new CannotOpen(`The database in ${dataDir} cannot be opened: ${(error as Error).message}.`, { cause: error });
  }
}
