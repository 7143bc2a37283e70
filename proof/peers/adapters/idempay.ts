import { generateKey, transactionIdOf } from '../../../test/support/http-client.js';
import { shownPayment } from '../../../test/support/processor-payer.js';
import type { Peer } from '../peer.js';

const common = {
  entry: new URL('../../../../dist/main.js', import.meta.url),
  path: '/api/payment',
  newKey: generateKey,
  receiptOf: transactionIdOf,
  isForOperator: async (url, key) => (await shownPayment(url, key))?.state === 'PROCESSING',
} satisfies Partial<Peer>;

/** As `docs/processor.md` says for a processor that does not deduplicate: send once, then only look up. */
function processorSettings(deduplicates: boolean): Record<string, string> {
  return deduplicates ? {} : { PROCESSOR_DEDUP_SECONDS: '0' };
}

export const idempayDistributed: Peer = {
  ...common,
  name: 'Idempay, distributed',
  about: 'This service on Redis and PostgreSQL, with its defaults: the row is committed before the charge is sent.',
  processes: 2,
  stores: ['redis', 'postgres'],
  environment: ({ deduplicates, databaseUrl }) => ({
    DATABASE_URL: databaseUrl,
    ...processorSettings(deduplicates),
  }),
};

export const idempayEmbedded: Peer = {
  ...common,
  name: 'Idempay, embedded',
  about: 'This service in one process with SQLite, with its defaults.',
  processes: 1,
  stores: [],
  environment: ({ deduplicates, folder }) => ({ DATA_DIR: folder, ...processorSettings(deduplicates) }),
};
