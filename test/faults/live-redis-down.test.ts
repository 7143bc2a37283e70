import { once } from 'node:events';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import type { Sample } from '#idempay/live/sample.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { followLive, readLive } from '../../testkit/client/live.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { withSlack } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';

/** From one sample of a process to the next. */
const INTERVAL_MS = 5_000;
/** A drain that is held up takes as long. */
const DRAIN_MS = 20_000;

const stores = await openDistributedStores();
afterAll(() => stores.close());
const { wires } = stores;

const times = (samples: readonly Sample[], instance: string) =>
  samples.filter((sample) => sample.instance === instance).map(({ at }) => at);

test.each([
  ['refuses connections', () => wires.redis.cutOff()],
  ['takes commands and answers none', () => wires.redis.blackhole('to client')],
])(
  'while Redis %s the live view goes on with its own process, and has the others again afterwards',
  async (_what, damage) => {
    const one = await stores.serve(wires.environment);
    const other = await stores.serve();
    onTestFinished(async () => {
      await Promise.all([one.stop(50), other.stop(50)]);
    });
    const reader = followLive(one.url);
    const { instance: own } = await readLive(one.url);
    const others = (samples: readonly Sample[]) => samples.filter(({ instance }) => instance !== own);
    await reader.until('both', (samples) => others(samples).length > 0 && times(samples, own).length > 0);

    damage();
    const before = reader.samples().length;
    const logged = one.logs.length;
    const down = await reader.until('two more of its own', (samples) => times(samples.slice(before), own).length >= 2);
    expect(others(down.slice(before)).length).toBeLessThanOrEqual(1);
    expect(down.at(-1)).toMatchObject({ instance: own, stores: { redis: false, postgresql: true } });
    // The log has lines about the store only, and none about samples that were not shared.
    expect(one.logs.slice(logged).filter(({ msg }) => !/Redis/.test(String(msg)))).toEqual([]);
    expect(one.logs.length - logged).toBeLessThanOrEqual(2);
    wires.redis.heal();

    const back = reader.samples().length;
    await reader.until('the other one', (samples) => others(samples.slice(back)).length > 0);
    // The samples that the other one shared meanwhile are there too: they have no gap of more than an interval and a bit.
    const [ofOther = ''] = others(reader.samples()).map(({ instance }) => instance);
    const shown = times(reader.samples(), ofOther).toSorted((a, b) => a - b);
    const gaps = shown.slice(1).map((at, index) => at - (shown[index] ?? 0));
    expect(Math.max(...gaps)).toBeLessThan(withSlack(INTERVAL_MS));
    await expect.poll(async () => (await pay(one.url, await generateKey(one.url))).status).toBe(200);
  },
);

test('a client that takes nothing of a long answer holds no drain up', async () => {
  const service = await stores.serve();
  const { samples: name } = await stores.keyNames();
  const [own] = await followLive(service.url).until('a sample', ({ length }) => length > 0);
  const sample = { ...own, at: Date.now(), instance: 'another', more: 'x'.repeat(2_000) };
  const filling = stores.redis.client.pipeline();
  for (let entry = 0; entry < 9_000; entry += 1) filling.xadd(name, '*', 'sample', JSON.stringify(sample));
  await filling.exec();
  // A poll of a second ago would answer this one.
  await until('the samples to be read', 20_000, async () => (await readLive(service.url)).samples.length >= 9_000);
  const socket = openConnection(service.port, requestText('GET /api/live HTTP/1.1'));
  const [head] = await once(socket, 'data');
  expect(String(head)).toMatch(/^HTTP\/1\.1 200/);
  socket.on('data', () => socket.bytesRead > 10_000 && socket.pause());
  await until('a part of the answer', 20_000, () => socket.isPaused());
  // Far more than the buffers of both sides hold is on its way.
  await pause(2_000);
  const begun = performance.now();
  await service.stop(DRAIN_MS);
  expect(performance.now() - begun).toBeLessThan(DRAIN_MS);
  expect(socket.bytesRead).toBeGreaterThan(10_000);
  expect(socket.bytesRead).toBeLessThan(9_000 * 2_000);
  socket.destroy();
});
