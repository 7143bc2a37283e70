import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import type { Deployment } from '#idempay/stores/shared/deployment.js';
import { LONG_MS } from './payment-attempts.js';

/** The embedded deployment on a folder of its own, for each test. */
export function openEmbeddedFolder() {
  let dataDir: string;
  const folder = {
    deployment: undefined as unknown as Deployment,

    file: (name: string) => join(dataDir, name),

    async start(): Promise<void> {
      folder.deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
    },

    inFile<T>(look: (database: InstanceType<typeof DatabaseSync>) => T): T {
      const database = new DatabaseSync(folder.file('idempay.sqlite'));
      try {
        return look(database);
      } finally {
        database.close();
      }
    },
  };
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'idempay-embedded-'));
    await folder.start();
  });
  afterEach(async () => {
    await folder.deployment.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  return folder;
}
