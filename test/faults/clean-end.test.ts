import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { Load } from '../../testkit/client/load.js';
import { History } from '../../testkit/history/history.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const DATABASE = 'idempay.sqlite';
const CLIENTS = { payments: 6, transactions: 2 };
const LEASE_MS = 30_000;
const DEADLINE_MS = 60_000;

describe('the embedded service after a clean end', () => {
  let folder: string;
  let service: Service;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-end-'));
  });
  afterEach(async () => {
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  });

  it(
    'has left everything in its one file, so that a copy of it is a backup',
    async () => {
      const [original, copy] = [join(folder, 'original'), join(folder, 'copy')];
      await mkdir(copy);
      service = await startService({ DATA_DIR: original });
      const history = new History([{ name: 'service', url: service.url }]);
      const load = new Load(history, seededRandom(seedFrom('CRASH_SEED')));
      await load.during(CLIENTS, () =>
        until('there is something to keep', DEADLINE_MS, () => load.payments.finished.length > 100),
      );
      expect(await service.stop()).toEqual({ code: 0, signal: null });

      await copyFile(join(original, DATABASE), join(copy, DATABASE));
      service = await startService({ DATA_DIR: copy });
      history.targets = [{ name: 'service', url: service.url }];
      await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_MS });
      history.close();
    },
    2 * DEADLINE_MS,
  );
});
