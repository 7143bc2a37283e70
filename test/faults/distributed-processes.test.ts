import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateKey, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  deleteTransaction,
  expectUnknownTransaction,
  givenTransaction,
  idsOf,
  listTag,
  listTransactions,
  MOVABLE_STATUSES,
  newAccount,
  quoted,
  readTransaction,
  type Status,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';

const CLIENTS = 64;
const KEYS = 10_000;
const MOST_DUPLICATES = 3;
/** 500 transactions with nine changes and one delete each: 5,000 writes. */
const TRANSACTIONS = 500;
const CHANGES_EACH = 9;
const LISTS = 8;
const LIST_WRITES_EACH = 40;
/** Sum of the waits of a reader for the one loader; a round that was over sooner had no reader that gave up. */
const PATIENCE_MS = 60;
const QUICK_ROUNDS = 20;
const READERS_PER_ROUND = 12;

describe('three processes on one Redis and one PostgreSQL', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  let urls: string[];
  let random: Random;

  beforeAll(async () => {
    random = seededRandom(seedFrom('PROCESSES_SEED'));
    stores = await openDistributedStores();
    wires = await openWires(stores);
    // Only what counts statements goes through a wire; the load does without that detour.
    const services = await Promise.all([1, 2, 3].map(() => stores.start({ LOCK_TTL_SECONDS: '10' })));
    urls = services.map((service) => service.url);
  }, 60_000);
  afterAll(async () => {
    await stores?.close();
    await wires?.close();
  });

  const anyUrl = () => random.pick(urls);
  const otherUrls = (url: string) => urls.filter((each) => each !== url);

  it(`give ${KEYS} keys one id each, however their duplicates are spread over the processes`, async () => {
    const answers = await inParallel(KEYS, CLIENTS, async () => {
      const key = await generateKey(anyUrl());
      const duplicates = 2 + random.below(MOST_DUPLICATES - 1);
      const sent = await Promise.all(Array.from({ length: duplicates }, () => pay(anyUrl(), key)));
      // A duplicate that met the running payment comes back once it is over.
      sent.push(await pay(anyUrl(), key));
      return { key, sent };
    });

    const ids = new Set<string>();
    for (const { key, sent } of answers) {
      expect(sent.filter(({ status }) => status !== 200 && status !== 409).map(({ text }) => text)).toEqual([]);
      const told = new Set(sent.filter(({ status }) => status === 200).map(transactionIdOf));
      expect(told.size, `the ids of ${key}`).toBe(1);
      expect(sent.filter(({ text }) => text.includes('processed successfully')).length, `first texts of ${key}`).toBe(
        1,
      );
      ids.add([...told][0] as string);
    }
    expect(ids.size).toBe(KEYS);
    const [rows] = await stores.sql<{ count: string; epochs: number }>(
      'SELECT count(*), max(epoch) AS epochs FROM idempay.payments',
    );
    expect(rows).toEqual({ count: String(KEYS), epochs: 1 });
  }, 180_000);

  it('read through one process what another has just written, never anything older', async () => {
    let hits = 0;
    const expectRead = async (url: string, id: number, status: Status) => {
      const answer = await readTransaction(url, id);
      if (answer.headers['cache-status'] === 'transactionCache; hit') hits += 1;
      expect(answer.json<Transaction>().status, `${id}, ${answer.headers['cache-status']}`).toBe(status);
    };

    await inParallel(TRANSACTIONS, CLIENTS, async () => {
      const { transactionId: id } = await givenTransaction(anyUrl());
      for (let change = 0; change < CHANGES_EACH; change += 1) {
        const status = MOVABLE_STATUSES[(change + 1) % MOVABLE_STATUSES.length] as Status;
        const writer = anyUrl();
        // One reader is on its way while the change is made: what it read must not be kept if it is old.
        const [changed] = await Promise.all([changeStatus(writer, id, status), readTransaction(anyUrl(), id)]);
        expect(changed.status).toBe(200);
        await Promise.all(otherUrls(writer).map((url) => expectRead(url, id, status)));
      }
      const remover = anyUrl();
      const [removed] = await Promise.all([deleteTransaction(remover, id), readTransaction(anyUrl(), id)]);
      expect(removed.status).toBe(204);
      for (const url of otherUrls(remover)) expectUnknownTransaction(await readTransaction(url, id), id);
    });
    // Else the reads never met the cache, and the test has shown nothing.
    expect(hits).toBeGreaterThan(TRANSACTIONS);
  }, 180_000);

  it('serve the list tag of a create or delete through every process once it is answered, and no wrong 304', async () => {
    await inParallel(LISTS, LISTS, async () => {
      const filter = { from: newAccount() };
      let ids: number[] = [];
      for (let write = 0; write < LIST_WRITES_EACH; write += 1) {
        const before = quoted(listTag(ids));
        const writer = anyUrl();
        if (ids.length > 2 && random.below(3) === 0) {
          const gone = random.pick(ids);
          expect((await deleteTransaction(writer, gone)).status).toBe(204);
          ids = ids.filter((id) => id !== gone);
        } else {
          ids.push((await givenTransaction(writer, { fromAccount: filter.from })).transactionId);
        }
        const now = quoted(listTag(ids));
        await Promise.all(
          otherUrls(writer).map(async (url) => {
            const list = await listTransactions(url, filter, { 'If-None-Match': before });
            expect(list.status, 'of a list that has changed').toBe(200);
            expect({ ids: idsOf(list), tag: list.headers.etag }).toEqual({ ids, tag: now });
            const again = await listTransactions(url, filter, { 'If-None-Match': now });
            expect({ status: again.status, tag: again.headers.etag }).toEqual({ status: 304, tag: now });
          }),
        );
      }
    });
  }, 120_000);

  it('load a row once for all readers of all processes that miss it together', async () => {
    const services = await Promise.all([1, 2, 3].map(() => stores.start(wires.environment)));
    const loads = wires.postgres.count(executionOf('find_transaction'));
    let quick = 0;
    for (let round = 0; quick < QUICK_ROUNDS; round += 1) {
      expect(round, `only ${quick} rounds were quick enough to judge`).toBeLessThan(QUICK_ROUNDS * 50);
      const { transactionId: id } = await givenTransaction(urls[0] as string);
      const before = loads();
      const begun = performance.now();
      const answers = await inParallel(READERS_PER_ROUND, READERS_PER_ROUND, (reader) =>
        readTransaction((services[reader % 3] as { url: string }).url, id),
      );
      const tookMs = performance.now() - begun;
      expect(answers.map(({ status }) => status)).toEqual(Array(READERS_PER_ROUND).fill(200));
      if (tookMs >= PATIENCE_MS) continue;
      quick += 1;
      expect(loads() - before, `loads in a round of ${tookMs} ms`).toBe(1);
    }
  }, 60_000);
});
