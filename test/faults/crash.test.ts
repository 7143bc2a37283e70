import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyJournal } from '../../testkit/checkers/verify-journal.js';
import { LoadClients } from '../../testkit/client/load-clients.js';
import { LoadJournal } from '../../testkit/history/load-journal.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';

const ROUNDS = Number(process.env.CRASH_ROUNDS || 20);
const CLIENTS = 16;
/** A kill comes this long after the clients began, at most: enough for hundreds of requests, the very first included. */
const LONGEST_LOAD_MS = 900;
/** Read one by one after each restart; the list is always read whole, and after the last restart so is everything. */
const SAMPLE = 150;
/** One start in five is killed as soon as its port is open, while it may still be finishing what it found. */
const KILLED_AT_START = 0.2;
/** Alternating: without a delay the kills hit commits, with one they hit payments between claim and settlement. */
const DELAYS_MS = ['0', '20'];
const ROUND_TIMEOUT_MS = 15_000;

describe('the embedded service killed under load', () => {
  const journal = new LoadJournal();
  let folder: string;
  let service: Service | undefined;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-crash-'));
  });
  afterAll(async () => {
    await service?.kill();
    await rm(folder, { recursive: true, force: true });
  });

  it(
    `keeps every acknowledged key, payment and transaction through ${ROUNDS} kills, with one id each`,
    async () => {
      const random = seededRandom(seedFrom('CRASH_SEED'));
      const clients = new LoadClients(CLIENTS, journal, random.fork());
      const start = (round: number) =>
        startService({ DATA_DIR: folder, PROCESSOR_DELAY_MS: DELAYS_MS[round % DELAYS_MS.length] as string });
      let kills = 0;
      let cutPayments = 0;

      for (let round = 0; round < ROUNDS; round += 1) {
        service = await start(round);
        if (random.fraction() < KILLED_AT_START) {
          await service.kill();
          kills += 1;
          service = await start(round);
        }
        await verifyJournal(service.url, { journal, random, sample: SAMPLE });
        journal.expectNoViolations(`after ${kills} kills`);

        const stop = new AbortController();
        const load = clients.run(service.url, stop.signal);
        await pause(random.below(LONGEST_LOAD_MS));
        // In one turn of the event loop: no client can send anything between the two.
        stop.abort();
        const exit = service.kill();
        expect(await exit).toEqual({ code: null, signal: 'SIGKILL' });
        kills += 1;
        await load;
        cutPayments += journal.payments.unresolved().length;
      }

      service = await start(0);
      await verifyJournal(service.url, { journal, random, sample: Number.POSITIVE_INFINITY });
      console.log(`${kills} kills, ${cutPayments} payments cut by them; ${journal.summary()}`);

      journal.expectNoViolations();
      expect(journal.payments.unresolved()).toEqual([]);
      expect(kills).toBeGreaterThanOrEqual(ROUNDS);
      // Else the kills never hit anything, and the test has shown nothing.
      expect(cutPayments).toBeGreaterThan(0);
      expect(journal.transactions.deleted().length).toBeGreaterThan(0);
      expect(await service.stop()).toEqual({ code: 0, signal: null });
    },
    (ROUNDS + 1) * ROUND_TIMEOUT_MS,
  );
});
