import { generateKey, sendJson, transactionIdOf } from '../../../testkit/client/http-client.js';
import { pause } from '../../../testkit/time/until.js';
import type { Peer } from '../peer.js';

const common = {
  program: new URL('../../../../dist/main.js', import.meta.url),
  path: '/api/payment',
  newKey: generateKey,
  receiptOf: transactionIdOf,
  isForOperator,
} satisfies Partial<Peer>;

/** Resolves it, as an operator would. That is refused while the service may find out by itself, or looks the payment up. */
async function isForOperator(url: string, key: string): Promise<boolean> {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const resolution = { outcome: 'declined', reason: 'not on the statement' };
    const { status } = await sendJson(`${url}/api/payments/${key}/resolution`, 'POST', resolution);
    if (status === 200) return true;
    await pause(1_000);
  }
  return false;
}

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
