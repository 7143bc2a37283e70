import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { chargedOf, type Order, type OrderEnd, settleOrder } from '../../testkit/client/orders.js';
import type { ShownPayment } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { Disturbances } from '../../testkit/history/disturbances.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

/** `ORDERS=2000` for the proof of docs/reference/references.md. */
const ORDERS = Number(process.env.ORDERS ?? 300);
const CALLERS = 4;
/** Orders that are paid at the same time. */
const AT_ONCE = 16;
const ATTEMPTS = 3;
const SERVES_MS = 800;
const FLUSH_EVERY_MS = 1_000;
const LEASE_SECONDS = 2;

describeDeployments(
  'orders that are paid by four callers each, through kills, FLUSHALL, declines and lost answers',
  ({ open, name }) => {
    test(
      'one completed charge for each order, and the same key for each attempt, as the processor counts it',
      WITHOUT_LIMIT,
      async () => {
        const stores = await open();
        const processor = await startReferenceProcessor({
          behaviour: { declineRate: 0.2, lostReplyRate: 0.05, latencyMs: 50 },
        });
        const disturbances = new Disturbances();
        const environment = {
          ...stores.environment,
          HOST: '127.0.0.1',
          PROCESSOR_URL: processor.url,
          PROCESSOR_TIMEOUT_MS: '1000',
          LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
        };
        const names = name === 'embedded' ? ['one'] : ['one', 'two', 'three'];
        const services = await Promise.all(
          names.map((each) => SupervisedService.create({ name: each, environment, disturbances })),
        );
        onTestFinished(async () => {
          await Promise.all(services.map((service) => service.close()));
          await processor.close();
          await stores.close();
        });
        await Promise.all(services.map((service) => service.up()));
        const urls = services.map(({ url }) => url);
        const faults = beginFaults(services, stores.environment.REDIS_URL);

        const orders = Array.from(
          { length: ORDERS },
          (_, index): Order => ({
            reference: `order-${index}`,
            amount: `${index + 1}.50`,
            currency: 'EUR',
          }),
        );
        const ends = new Map<Order, OrderEnd[]>();
        const left = orders.values();
        const settle = async () => {
          for (const order of left) {
            const callers = Array.from({ length: CALLERS }, (_, caller) => {
              const from = urls.map((_url, at) => urls[(at + caller) % urls.length] as string);
              return settleOrder(from, order, { requests: caller % 2 === 0 ? 1 : 2, attempts: ATTEMPTS });
            });
            ends.set(order, await Promise.all(callers));
          }
        };
        await Promise.all(Array.from({ length: AT_ONCE }, settle));
        const { kills, flushes } = await faults.end();
        await Promise.all(services.map((service) => service.up()));

        const charged = chargedOf(await processor.charges());
        const paid = { completed: 0, declined: 0, later: 0 };
        for (const [order, each] of ends) {
          const records = (await ask(`${urls[0]}/api/payments?reference=${order.reference}`)).json<ShownPayment[]>();
          const keys = records.map(({ idempotencyKey }) => idempotencyKey);
          const charges = keys.map((key) => charged.get(key) ?? 0).reduce((sum, count) => sum + count, 0);
          const completed = records.filter(({ state }) => state === 'COMPLETED');
          // One row for each attempt, the last one decides, and every attempt before it was declined.
          expect(new Set(keys).size, order.reference).toBe(records.length);
          expect(records.filter(({ state }) => state === 'DECLINED')).toHaveLength(records.length - completed.length);
          expect([charges, completed.length], JSON.stringify({ order, records, each })).toEqual(
            completed.length === 1 ? [1, 1] : [0, 0],
          );
          expect(
            each.every(({ status }) => [200, 402, 422].includes(status)),
            JSON.stringify(each),
          ).toBe(true);
          if (completed.length === 1) expect(each.some(({ status }) => status === 200)).toBe(true);
          else expect(records).toHaveLength(ATTEMPTS);
          paid[completed.length === 1 ? 'completed' : 'declined'] += 1;
          if (records.length > 1) paid.later += 1;
        }
        expect([...charged.values()].filter((count) => count > 1)).toEqual([]);
        expect([...charged.values()]).toHaveLength(paid.completed);
        console.log(
          JSON.stringify({ deployment: name, orders: ORDERS, ...paid, kills, flushes, charges: charged.size }),
        );
        expect(kills).toBeGreaterThan(0);
      },
    );
  },
);

/** Kills one process after the other, each time when it has served for a moment, and empties Redis every second. */
function beginFaults(services: readonly SupervisedService[], redisUrl: string | undefined) {
  const counts = { kills: 0, flushes: 0 };
  const redis = redisUrl === undefined ? undefined : new Redis(redisUrl, { lazyConnect: true });
  redis?.on('error', () => {});
  let ended = false;
  const killing = (async () => {
    for (let next = seedFrom('ORDERS_SEED'); !ended; next += 1) {
      const service = services[next % services.length] as SupervisedService;
      await service.up();
      await pause(SERVES_MS);
      if (ended) return;
      await service.kill();
      counts.kills += 1;
    }
  })();
  const flushing = setInterval(() => {
    counts.flushes += 1;
    redis?.flushall().catch(() => {});
  }, FLUSH_EVERY_MS);
  return {
    async end() {
      ended = true;
      clearInterval(flushing);
      await killing;
      redis?.disconnect();
      return redis ? counts : { ...counts, flushes: 0 };
    },
  };
}
