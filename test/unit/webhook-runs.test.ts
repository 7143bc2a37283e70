import { setImmediate as settle } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { PaymentHistory } from '#idempay/payments/ports/payment-history.js';
import { type FeedPosition, SettlementFeed } from '#idempay/payments/settlement-feed.js';
import { openInMemory } from '#idempay/stores/embedded/open-in-memory.js';
import type { Endpoint } from '#idempay/webhooks/endpoint-file.js';
import { LEASE_MS } from '#idempay/webhooks/endpoint-run.js';
import type { Message } from '#idempay/webhooks/message.js';
import type { Lease } from '#idempay/webhooks/ports/endpoint-rows.js';
import type { Receivers, SendResult } from '#idempay/webhooks/receivers.js';
import type { WebhookEvents } from '#idempay/webhooks/webhook-events.js';
import { createWebhooks } from '#idempay/webhooks/webhooks.js';
import { givenClaim, givenSettled, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

const ENDPOINT: Endpoint = { name: 'shop', url: 'https://shop.example/', secrets: ['whsec_'] };
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_HOURS = 24;
const MOST_SET_ASIDE = 1_000;
const LOST_INCARNATION = '0123456789abcdef';
const TAKEN: SendResult = { state: 'taken' };
const REFUSED: SendResult = { state: 'refused', cause: 'it answered 500' };
/** Promises that follow each other after one timer. */
const TURNS = 6;
const STEP_MS = 200;

/** The real stores, feed and runs, in memory, by a clock that the test moves. The receiver is the test. */
describe('an endpoint', () => {
  let clock: HandClock;
  let ports: ReturnType<typeof openInMemory>;
  let endpoints: Endpoint[];
  let events: string[];
  let answer: (id: string) => SendResult;
  let find: PaymentHistory['find'];
  /** True if the next page is asked for as after a loss: with a place of an incarnation that the store does not know. */
  let isAfterLoss: boolean;
  /** Of the store, one for each stop of an endpoint by its receiver. */
  let faultsOfStop: Error[];
  let sent: { readonly id: string; readonly atMs: number; readonly url: string }[];

  beforeEach(() => {
    clock = new HandClock(Date.now());
    ports = openInMemory(clock);
    endpoints = [ENDPOINT];
    events = [];
    sent = [];
    answer = () => TAKEN;
    find = ports.paymentHistory.find;
    isAfterLoss = false;
    faultsOfStop = [];
  });

  function start() {
    const feed = new SettlementFeed(ports.settlements, clock);
    const receivers: Receivers = {
      async send({ url }, { id }: Message) {
        sent.push({ id, atMs: clock.monotonic(), url });
        return answer(id);
      },
      async close() {},
    };
    const told = (name: keyof WebhookEvents) => (endpoint: string) => void events.push(`${name} ${endpoint}`);
    const webhooks = createWebhooks(
      {
        get current() {
          return endpoints;
        },
        close() {},
      },
      newOwner,
      {
        rows: {
          ...ports.endpointRows,
          async stopServing(lease) {
            const fault = faultsOfStop.shift();
            if (fault) throw fault;
            return ports.endpointRows.stopServing(lease);
          },
        },
        feed: {
          read(question) {
            const { after } = question;
            if (!isAfterLoss || typeof after !== 'object' || !('incarnation' in after)) return feed.read(question);
            isAfterLoss = false;
            return feed.read({ ...question, after: { ...after, incarnation: LOST_INCARNATION } });
          },
        },
        history: { find: (key) => find(key) },
        clock,
        random: () => 0,
        events: {
          fault: (fault) => void events.push(`fault ${fault}`),
          setAside: told('setAside'),
          standsStill: told('standsStill'),
          stoppedByReceiver: told('stoppedByReceiver'),
          passedByRetention: told('passedByRetention'),
          beganEarlier: told('beganEarlier'),
          setAsideRemoved: told('setAsideRemoved'),
        },
      },
      receivers,
    );
    webhooks.start();
    onTestFinished(async () => {
      const stopped = webhooks.stop();
      await pass(5 * SECOND_MS);
      await stopped;
    });
    return webhooks;
  }

  /** Lets time pass in steps, so that everything that follows a timer can begin others. */
  async function pass(ms: number, stepMs = STEP_MS): Promise<void> {
    for (let passed = 0; passed < ms; passed += stepMs) {
      clock.advance(stepMs);
      for (let turn = 0; turn < TURNS; turn += 1) await settle();
    }
  }
  /** Most of each hour passes at once, as while the process is stopped. */
  async function passHours(hours: number): Promise<void> {
    for (let hour = 0; hour < hours; hour += 1) {
      clock.advance(HOUR_MS - MINUTE_MS);
      await pass(MINUTE_MS, 2 * SECOND_MS);
    }
  }
  async function passUntil(what: string, condition: () => boolean | Promise<boolean>, mostMs = 20 * MINUTE_MS) {
    for (let passed = 0; !(await condition()); passed += SECOND_MS) {
      if (passed > mostMs) throw new Error(`not within ${mostMs} ms: ${what}`);
      await pass(SECOND_MS);
    }
  }
  async function settled(client?: string): Promise<string> {
    const claim = await givenClaim(ports.ledger, { claimBy: clock.monotonic() + LONG_MS, client });
    await givenSettled(ports.ledger, claim);
    return `${claim.key}.completed`;
  }
  const settledMany = async (count: number) => {
    const ids: string[] = [];
    for (let index = 0; index < count; index += 1) ids.push(await settled());
    return ids;
  };
  /** The lease of another process. */
  async function takenAway(): Promise<Lease> {
    const lease = { name: 'shop', owner: newOwner() };
    await ports.endpointRows.stop('shop');
    await pass(5 * SECOND_MS);
    await ports.endpointRows.start('shop');
    await ports.endpointRows.take({ ...lease, client: undefined, leaseMs: LONG_MS });
    return lease;
  }
  const keyOf = (id: string) => id.split('.')[0] as string;
  /** Behind everything that has settled. */
  async function presentPosition(): Promise<FeedPosition> {
    const found = await row();
    if (!found) throw new Error('the endpoint has no row');
    return { ...found.position, atUs: clock.now() * 1_000 };
  }
  const tries = (id: string) => sent.filter((each) => each.id === id);
  const isTold = (ids: readonly string[]) => ids.every((id) => tries(id).length > 0);
  const row = async () => ports.endpointRows.find('shop');
  const served = () => passUntil('the endpoint', async () => (await row()) !== undefined);

  test('a new endpoint begins with what settles from now on, and gets each once', WITHOUT_LIMIT, async () => {
    const before = await settledMany(3);
    await pass(SECOND_MS);
    start();
    await served();
    await pass(SECOND_MS);
    const ids = await settledMany(250);
    await passUntil('all', () => isTold(ids));
    expect(before.flatMap(tries)).toEqual([]);
    expect(sent.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    await pass(5 * MINUTE_MS, SECOND_MS);
    expect(sent).toHaveLength(250);
    // The position is near the present also at rest.
    expect((await row())?.position.atUs).toBeGreaterThan((clock.now() - 2 * MINUTE_MS) * 1_000);
  });

  test(
    'an endpoint that is behind gives way to payments: the later its turns come, the longer it pauses',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      const tookMs = async (stepMs: number) => {
        const ids = await settledMany(80);
        while (!isTold(ids)) await pass(stepMs, stepMs);
        const times = ids.flatMap(tries).map(({ atMs }) => atMs);
        return Math.max(...times) - Math.min(...times);
      };
      // Nine pauses of 4 ms. A turn that comes 20 ms late is followed by one of 64 ms, in place of the next step after 24 ms.
      expect(await tookMs(4)).toBe(9 * 4);
      expect(await tookMs(24)).toBeGreaterThan(2 * 9 * 24);
      // After a process was stopped no pause is longer than 154 ms, so each of these steps ends one.
      expect(await tookMs(1_000)).toBe(9 * 1_000);
    },
  );

  test(
    'another run goes on where this one has stopped, and repeats nothing that was taken',
    WITHOUT_LIMIT,
    async () => {
      const first = start();
      await served();
      await pass(SECOND_MS);
      const ids = await settledMany(5);
      await passUntil('all', () => isTold(ids));
      const stopped = first.stop();
      await pass(5 * SECOND_MS);
      await stopped;
      const later = await settledMany(5);
      start();
      await passUntil('the others', () => isTold(later));
      expect(sent.map(({ id }) => id).toSorted()).toEqual([...ids, ...later].toSorted());
    },
  );

  test(
    'a process that was stopped for longer than its lease sends nothing before it has asked',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      answer = () => REFUSED;
      const id = await settled();
      await passUntil('the first try', () => tries(id).length === 1);
      clock.leap(MINUTE_MS);
      const taken = { name: 'shop', owner: newOwner(), client: undefined, leaseMs: LONG_MS };
      expect(await ports.endpointRows.take(taken)).toMatchObject({ state: 'taken' });
      await pass(MINUTE_MS, SECOND_MS);
      expect(tries(id)).toHaveLength(1);
    },
  );

  test(
    'after a loss it begins earlier, and sends what was open as if it had not been read',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      const bad = await settled();
      answer = (id) => (id === bad ? REFUSED : TAKEN);
      await passUntil('the first try', () => tries(bad).length === 1);
      isAfterLoss = true;
      const good = await settled();
      await passUntil('the earlier begin', () => events.includes('beganEarlier shop'));
      await passUntil('what was taken before', () => tries(good).length === 2);
      await pass(MINUTE_MS);
      const times = tries(bad).map(({ atMs }) => atMs);
      const again = times.slice(times.lastIndexOf(tries(good)[1]?.atMs as number));
      const seconds = again.map((atMs) => Math.floor((atMs - (again[0] as number)) / SECOND_MS));
      expect(seconds.slice(0, 6)).toEqual([0, 1, 3, 7, 15, 31]);
    },
  );

  test(
    'a refused one is set aside, tried each hour for three days, kept, and sent again by hand',
    WITHOUT_LIMIT,
    async () => {
      const { counts } = start();
      await served();
      await pass(SECOND_MS);
      const bad = await settled();
      answer = (id) => (id === bad ? REFUSED : TAKEN);
      await passUntil('it to be set aside', async () => {
        await settled();
        return (await row())?.setAside === 1;
      });
      expect(events).toEqual(['setAside shop']);
      const seconds = tries(bad).map(({ atMs }) => Math.floor((atMs - (tries(bad)[0]?.atMs ?? 0)) / SECOND_MS));
      expect(seconds).toEqual([0, 1, 3, 7, 15, 31, 63]);
      expect(counts.get('shop')).toMatchObject({ isServed: true, setAside: 1, behindMs: 0 });

      sent = [];
      await passHours(4 * DAY_HOURS);
      expect(tries(bad).length).toBeGreaterThanOrEqual(3 * DAY_HOURS - 8);
      expect(tries(bad).length).toBeLessThanOrEqual(3 * DAY_HOURS + 1);
      expect(await ports.endpointRows.listSetAside('shop', 10)).toMatchObject([{ nextTryAt: undefined }]);

      sent = [];
      await passHours(10);
      expect(tries(bad)).toEqual([]);
      answer = () => TAKEN;
      expect(await ports.endpointRows.resend('shop', undefined)).toBe(1);
      await passUntil('it to be sent', () => tries(bad).length === 1);
      await passUntil('it to be gone', async () => (await row())?.setAside === 0);
    },
  );

  test('a receiver that is down sets nothing aside, and gets everything when it is back', WITHOUT_LIMIT, async () => {
    const { counts } = start();
    await served();
    await pass(SECOND_MS);
    answer = () => REFUSED;
    const ids = await settledMany(150);
    await pass(HOUR_MS, SECOND_MS);
    expect((await row())?.setAside).toBe(0);
    expect(counts.get('shop')?.behindMs).toBeGreaterThan(HOUR_MS - MINUTE_MS);
    answer = () => TAKEN;
    sent = [];
    await passUntil('all', () => isTold(ids));
    expect(events).toEqual([]);
  });

  test(
    'if a hundred are refused, one beyond them shows that others are taken, and they are set aside',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      const bad = new Set(await settledMany(100));
      answer = (id) => (bad.has(id) ? REFUSED : TAKEN);
      const good = await settledMany(30);
      await passUntil('the others', () => isTold(good), 2 * HOUR_MS);
      // A refusal counts only while others are taken.
      await passUntil(
        'all that are refused to be set aside',
        async () => (await settled()) !== '' && (await row())?.setAside === 100,
        2 * HOUR_MS,
      );
    },
  );

  test(
    `at ${MOST_SET_ASIDE} it stands still with an alarm, and goes on when they are taken`,
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      // As if this many were refused before.
      const lease = await takenAway();
      const aside = { cause: 'it answered 500', retryMs: HOUR_MS, mostSetAside: MOST_SET_ASIDE };
      const kept = await settledMany(MOST_SET_ASIDE);
      for (const id of kept) await ports.endpointRows.setAside(lease, { ...aside, key: keyOf(id) });
      await pass(SECOND_MS);
      await ports.endpointRows.advance(lease, await presentPosition());
      await ports.endpointRows.release(lease);
      const bad = await settled();
      answer = (id) => (id === bad ? REFUSED : TAKEN);
      await passUntil('the alarm', async () => {
        await settled();
        return events.includes('standsStill shop');
      });
      expect((await row())?.setAside).toBe(MOST_SET_ASIDE);
      const position = (await row())?.position.atUs;
      await pass(10 * MINUTE_MS, SECOND_MS);
      expect((await row())?.position.atUs).toBe(position);
      expect(events.filter((event) => event === 'standsStill shop')).toHaveLength(1);
      await ports.endpointRows.resend('shop', undefined);
      await passUntil('room', async () => Number((await row())?.setAside) < MOST_SET_ASIDE / 2);
      answer = () => TAKEN;
      await passUntil('the position to move', async () => (await row())?.position.atUs !== position);
    },
  );

  // Bug: a process that was stopped while it read a settlement that is set aside sent it without a lease. Cause: the lease was looked at
  // before two reads. Fix: it is looked at right before the send.
  test(
    'a settlement that is set aside is not sent if the lease has ended while it was read',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      const id = await settled();
      await passUntil('the message', () => isTold([id]));
      sent = [];
      const key = id.split('.')[0] as string;
      const lease = await takenAway();
      const aside = { key, cause: 'it answered 500', retryMs: 0, mostSetAside: MOST_SET_ASIDE };
      await ports.endpointRows.setAside(lease, aside);
      await ports.endpointRows.release(lease);
      let stoppedUntil = 0;
      find = async (asked) => {
        if (stoppedUntil === 0) {
          clock.leap(LEASE_MS);
          stoppedUntil = clock.monotonic();
        }
        return ports.paymentHistory.find(asked);
      };
      await passUntil('the stop', () => stoppedUntil > 0);
      await passUntil('the message', () => isTold([id]));
      expect(tries(id).filter(({ atMs }) => atMs <= stoppedUntil)).toEqual([]);
    },
  );
  // A process that set a settlement aside and died before the position had passed it left both: the feed brought the settlement again, its
  // receiver took it, and it was listed as refused, and counted by the alert, until its next try.
  test('a settlement that comes once more and is taken is not set aside any more', WITHOUT_LIMIT, async () => {
    start();
    await served();
    await ports.endpointRows.stop('shop');
    await pass(5 * SECOND_MS);
    await ports.endpointRows.start('shop');
    const lease = { name: 'shop', owner: newOwner() };
    await ports.endpointRows.take({ ...lease, client: undefined, leaseMs: LONG_MS });
    const id = await settled();
    const refused = { key: keyOf(id), cause: 'it answered 500', retryMs: HOUR_MS, mostSetAside: MOST_SET_ASIDE };
    await ports.endpointRows.setAside(lease, refused);
    await ports.endpointRows.release(lease);
    await passUntil('the settlement', () => isTold([id]));
    await passUntil('the removal', async () => (await row())?.setAside === 0);
    expect(tries(id)).toHaveLength(1);
  });

  test('410 stops it, and a start lets it go on where it was', WITHOUT_LIMIT, async () => {
    const { counts } = start();
    await served();
    await pass(SECOND_MS);
    answer = () => ({ state: 'gone' });
    const id = await settled();
    await passUntil('the stop', async () => (await row())?.stoppedBy === 'receiver');
    await pass(MINUTE_MS, SECOND_MS);
    expect(tries(id)).toHaveLength(1);
    expect(events).toEqual(['stoppedByReceiver shop']);
    expect(counts.get('shop')).toMatchObject({ isServed: false, isStopped: true });
    answer = () => TAKEN;
    await ports.endpointRows.start('shop');
    await passUntil('the message', () => tries(id).length === 2);
  });

  // Bug: an endpoint was not stopped by a 410 that came while the store failed, and this message was not sent again. Cause: the delivery
  // counted as being sent for the rest of the run. Fix: it counts as refused before the store is asked.
  test('410 while the store fails is asked for again at the next try, and stops it then', WITHOUT_LIMIT, async () => {
    start();
    await served();
    await pass(SECOND_MS);
    answer = () => ({ state: 'gone' });
    faultsOfStop = [new Error('the store is down')];
    const id = await settled();
    await passUntil('the first try', () => tries(id).length === 1);
    expect((await row())?.stoppedBy).toBeUndefined();
    await passUntil('the stop', async () => (await row())?.stoppedBy === 'receiver', MINUTE_MS);
    expect(tries(id)).toHaveLength(2);
    expect(events).toEqual(['fault Error: the store is down', 'stoppedByReceiver shop']);
  });

  test(
    'a changed client begins anew at the bound, and an endpoint that is removed and comes back goes on',
    WITHOUT_LIMIT,
    async () => {
      start();
      await served();
      await pass(SECOND_MS);
      endpoints = [];
      await pass(5 * SECOND_MS);
      const meanwhile = await settled('key:a');
      endpoints = [ENDPOINT];
      await passUntil('what was settled meanwhile', () => isTold([meanwhile]));
      endpoints = [{ ...ENDPOINT, client: 'key:b' }];
      await passUntil('the change', async () => (await row())?.client === 'key:b');
      const [others, own] = [await settled('key:a'), await settled('key:b')];
      await passUntil('its own', () => isTold([own]));
      await pass(5 * SECOND_MS);
      expect(tries(others)).toEqual([]);
    },
  );

  // Bug: after a change of the file, settlements of one client were sent to the address of another, or to an address that was changed before.
  // Cause: a run took the entry of its name, whoever its client was, and without one the entry with which it had begun. Fix: it takes the last
  // entry of its own client.
  describe('when the file changes while messages begin', () => {
    const OTHER = { ...ENDPOINT, url: 'https://other.example/' };
    const sentTo = (url: string) => sent.filter((each) => each.url === url).map(({ id }) => id);

    /** Three messages that are due at once. The file changes while the first one is sent. */
    async function sendWhileFileBecomes(next: Endpoint[], client?: string): Promise<string[]> {
      answer = () => {
        endpoints = next;
        return TAKEN;
      };
      const ids = [await settled(client), await settled(client), await settled(client)];
      await passUntil('the messages', () => isTold(ids));
      return ids;
    }

    test.each([['key:a'], [undefined]])(
      'nothing of the former client (%s) is sent to the address of the next one',
      WITHOUT_LIMIT,
      async (client) => {
        endpoints = [{ ...ENDPOINT, ...(client !== undefined && { client }) }];
        start();
        await served();
        await pass(SECOND_MS);
        const ids = await sendWhileFileBecomes([{ ...OTHER, client: 'key:b' }], client);
        expect(sentTo(ENDPOINT.url).toSorted()).toEqual(ids.toSorted());
        await passUntil('the change', async () => (await row())?.client === 'key:b');
        const own = await settled('key:b');
        await passUntil('its own', () => isTold([own]));
        expect(sentTo(OTHER.url)).toEqual([own]);
      },
    );

    test('an endpoint that is removed sends to the last address that it had', WITHOUT_LIMIT, async () => {
      start();
      await served();
      endpoints = [OTHER];
      await pass(5 * SECOND_MS);
      const ids = await sendWhileFileBecomes([]);
      expect(sentTo(OTHER.url).toSorted()).toEqual(ids.toSorted());
      expect(sentTo(ENDPOINT.url)).toEqual([]);
    });
  });
});
