import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyJournal } from '../../testkit/checkers/verify-journal.js';
import { LoadClients } from '../../testkit/client/load-clients.js';
import { LoadJournal } from '../../testkit/history/load-journal.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const DATABASE = 'idempay.sqlite';
const CLIENTS = 8;
const DEADLINE_MS = 20_000;

describe('the embedded service after a clean end', () => {
  let folder: string;
  let service: Service | undefined;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-end-'));
  });
  afterEach(async () => {
    await service?.kill();
    await rm(folder, { recursive: true, force: true });
  });

  it('has left everything in its one file, so that a copy of it is a backup', async () => {
    const [original, copy] = [join(folder, 'original'), join(folder, 'copy')];
    await mkdir(copy);
    const journal = new LoadJournal();
    const random = seededRandom(seedFrom('CRASH_SEED'));

    service = await startService({ DATA_DIR: original });
    const stop = new AbortController();
    const load = new LoadClients(CLIENTS, journal, random.fork()).run(service.url, stop.signal);
    await until('there is something to keep', DEADLINE_MS, () => journal.payments.finished().length > 200);
    stop.abort();
    await load;
    expect(await service.stop()).toEqual({ code: 0, signal: null });

    await copyFile(join(original, DATABASE), join(copy, DATABASE));
    service = await startService({ DATA_DIR: copy });
    await verifyJournal(service.url, { journal, random, sample: Number.POSITIVE_INFINITY });
    journal.expectNoViolations();
  });
});
