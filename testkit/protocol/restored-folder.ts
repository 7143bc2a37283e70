import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '#idempay/platform/clock.js';
import { markFolderAsRestored } from '#idempay/stores/embedded/file/adoption.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import type { Ports } from './ports.js';
import { changeStored } from './stored-rows.js';

/** So that nothing waits for charges that were under way at the loss. */
export const LOST_LONG_AGO = {
  embedded: 'UPDATE deployment SET adopted_at = 1',
  distributed: 'UPDATE idempay.deployment SET adopted_at = to_timestamp(1)',
};

export interface Restored {
  readonly ports: Ports;
  close(): Promise<void>;
}

/** The ports of an embedded deployment that was restored from a backup, which lacks rows. */
export async function openRestoredFolder(change = LOST_LONG_AGO): Promise<Restored> {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-lost-'));
  const open = () => openEmbedded({ dataDir, transactionCacheTtlMs: 1_000, clock: systemClock });
  await (await open()).close();
  markFolderAsRestored(dataDir);
  await (await open()).close();
  await changeStored({ environment: { DATA_DIR: dataDir } }, change);
  const ports = await open();
  return {
    ports,
    async close() {
      await ports.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
