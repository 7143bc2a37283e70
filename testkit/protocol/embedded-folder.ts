import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import type { Deployment } from '#idempay/deployments/deployment.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import { LONG_MS } from './payment-attempts.js';

/** The embedded deployment on a folder of its own, for each test. */
export interface EmbeddedFolder {
  readonly deployment: Deployment;
  /** Opens the folder again, after `deployment.close()`. */
  start(): Promise<void>;
  /** Reads or changes the file past the deployment. */
  inFile<T>(look: (database: InstanceType<typeof DatabaseSync>) => T): T;
}

export function openEmbeddedFolder(): EmbeddedFolder {
  let dataDir: string;
  let deployment: Deployment;

  async function start(): Promise<void> {
    deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
  }

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'idempay-embedded-'));
    await start();
  });
  afterEach(async () => {
    await deployment.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  return {
    get deployment() {
      return deployment;
    },
    start,
    inFile(look) {
      const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
      try {
        return look(database);
      } finally {
        database.close();
      }
    },
  };
}
