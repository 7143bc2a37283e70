import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import { beginPayment, expectCompleted, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { PaymentLoad } from '../../testkit/client/payment-load.js';
import { APPEND_ONLY, openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

const CLIENTS = 16;
const DUPLICATES = 3;
const LEASE = { LOCK_TTL_SECONDS: '2' };
/** A payment takes its time, so that what is taken away is often taken in the middle of one. */
const WORKING = { ...LEASE, PROCESSOR_DELAY_MS: '10' };
/** A charge that is surely under way when the test looks, and over soon after; under a lease that is renewed meanwhile. */
const SLOW = { ...LEASE, PROCESSOR_DELAY_MS: '1500' };
const FLUSHES = 80;
const LONGEST_BETWEEN_FLUSHES_MS = 120;
const OUTAGES_OF_EACH_KIND = 3;
const LONGEST_UP_MS = 800;
const LONGEST_AWAY_MS = 800;
/** A lease, a round of recovery and a busy machine. */
const OUTCOME_DEADLINE_MS = 30_000;

describe('payments under load', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let random: Random;

  beforeEach(async () => {
    random = seededRandom(seedFrom('AWAY_SEED'));
    stores = await openStoppableStores(APPEND_ONLY);
  }, 90_000);
  afterEach(() => stores?.close());

  /** Loads two processes while `takeAway` is at work, then holds every answer against all others and the rows. */
  async function expectOncePerKey(alsoRefused: number[], takeAway: () => Promise<void>): Promise<void> {
    const services = await Promise.all([stores.start(WORKING), stores.start(WORKING)]);
    const load = new PaymentLoad(
      services.map(({ url }) => url),
      random,
      alsoRefused,
    );
    const stop = new AbortController();
    const running = load.run(CLIENTS, DUPLICATES, stop.signal);
    await takeAway().finally(() => stop.abort());
    await running;

    await load.finish();
    load.expectOneIdPerKey();
    await load.expectRepeated();
    const rows = await stores.sql<{ key: string; transaction_id: string; state: string }>(
      'SELECT key, transaction_id, state FROM idempay.payments',
    );
    const told = new Map(load.paid().map(({ key, ids }) => [key, [...ids][0]]));
    // Charged exactly once: every row was told to a client, and every id that a client was told is the row's.
    expect(rows.filter((row) => row.state !== 'COMPLETED' || told.get(row.key) !== row.transaction_id)).toEqual([]);
    expect(rows.length).toBe(told.size);
    if (alsoRefused.length === 0) expect(told.size).toBe(load.keys.length);
    expect(told.size).toBeGreaterThan(FLUSHES);
    console.log(`${told.size} of ${load.keys.length} keys paid`);
  }

  it(`are made once for each key while Redis is emptied ${FLUSHES} times, its scripts now and then as well`, async () => {
    await expectOncePerKey([400], async () => {
      for (let flush = 0; flush < FLUSHES; flush += 1) {
        await pause(random.below(LONGEST_BETWEEN_FLUSHES_MS));
        await stores.redis.client.flushall();
        if (random.below(4) === 0) await stores.redis.client.script('FLUSH');
      }
    });
  }, 120_000);

  it('are made once for each key, and none is lost, while Redis and PostgreSQL are taken away and come back', async () => {
    const { redis, postgres } = stores;
    const outages: readonly (readonly [() => Promise<void> | void, () => Promise<void> | void])[] = [
      [() => redis.kill(), () => redis.start()],
      [() => redis.signal('SIGSTOP'), () => redis.signal('SIGCONT')],
      [() => postgres.stopImmediately(), () => postgres.start()],
    ];
    await expectOncePerKey([], async () => {
      for (let outage = 0; outage < outages.length * OUTAGES_OF_EACH_KIND; outage += 1) {
        const [takeAway, giveBack] = outages[outage % outages.length] as (typeof outages)[number];
        await pause(random.below(LONGEST_UP_MS));
        await takeAway();
        await pause(random.below(LONGEST_AWAY_MS));
        await giveBack();
      }
    });
  }, 120_000);

  it('under way when Redis is killed are answered once PostgreSQL has them, and repeated from there', async () => {
    const { url } = await stores.start(SLOW);
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    await stores.redis.kill();
    const id = expectFirst(await finished);
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);

    await stores.redis.start();
    // The append-only file brings back the lock of the payment that is over: until its lease ends.
    const repeat = await until('a repeat', OUTCOME_DEADLINE_MS, async () => {
      const answer = await pay(url, key);
      return answer.status === 200 && answer;
    });
    expectReplay(repeat, id);
    expectCompleted(await paymentStatus(url, key), id);
  }, 90_000);

  it('under way when PostgreSQL is stopped are never called failed, and have one outcome when it is back', async () => {
    const { url } = await stores.start(SLOW);
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    await stores.postgres.stopImmediately();
    const answer = await finished;
    expect([503, 504], answer.text).toContain(answer.status);
    await stores.postgres.start();
    await expectOneOutcome(url, key);
  }, 90_000);

  it('under way in a process that is killed are finished by another once the lease is over', async () => {
    const [dying, other] = await Promise.all([
      stores.start({ ...SLOW, PROCESSOR_DELAY_MS: '60000' }),
      stores.start(LEASE),
    ]);
    const key = await generateKey(dying.url);
    const { finished } = await beginPayment(dying.url, key);
    const cut = finished.catch(() => 'cut');
    // The lock is taken before the claim; only what is claimed is abandoned by the kill.
    await until('the claim', OUTCOME_DEADLINE_MS, async () => {
      return (await stores.sql('SELECT 1 FROM idempay.payments WHERE key = $1', [key])).length > 0;
    });
    await dying.kill();
    expect(await cut).toBe('cut');
    // Without any repeat: recovery looks for what was abandoned.
    const status = await until('recovery to finish it', OUTCOME_DEADLINE_MS, async () => {
      const answer = await paymentStatus(other.url, key);
      return answer.status === 200 && answer;
    });
    expectReplay(await pay(other.url, key), expectCompleted(status));
  }, 90_000);

  async function expectOneOutcome(url: string, key: string): Promise<void> {
    const repeat = await until('an outcome', OUTCOME_DEADLINE_MS, async () => {
      const again = await pay(url, key);
      if (again.status !== 200) expect([409, 503, 504]).toContain(again.status);
      return again.status === 200 && again;
    });
    const id = transactionIdOf(repeat) as string;
    expectReplay(await pay(url, key), id);
    expect(await stores.sql('SELECT transaction_id, state FROM idempay.payments WHERE key = $1', [key])).toEqual([
      { transaction_id: id, state: 'COMPLETED' },
    ]);
  }
});
