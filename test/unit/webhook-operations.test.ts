import { beforeEach, describe, expect, test } from 'vitest';
import { SettlementFeed } from '#idempay/payments/settlement-feed.js';
import { systemClock } from '#idempay/platform/clock.js';
import { decorated } from '#idempay/platform/decorated.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { openInMemory } from '#idempay/stores/embedded/open-in-memory.js';
import { createWebhookOperations } from '#idempay/webhooks/operations.js';
import { givenClaim, givenSettled, LONG_MS } from '../../testkit/protocol/payment-attempts.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const NAME = 'shop';
const CLIENT = 'key:shop';
const FILE = { current: [{ name: NAME, url: 'https://shop.example/hooks', client: CLIENT, secrets: [] }] };
const A_SECOND_MS = 1_000;

/** The real stores in memory. Their feed fails, or reads few rows for a page. */
describe('an endpoint for operators', () => {
  let clock: HandClock;
  let ports: ReturnType<typeof openInMemory>;

  beforeEach(async () => {
    clock = new HandClock(Date.now());
    ports = openInMemory(clock);
    const page = await new SettlementFeed(ports.settlements, clock).read({
      ...{ after: 'now', client: undefined, kind: undefined, limit: 1 },
    });
    if (page.state !== 'page') throw new Error(page.state);
    await ports.endpointRows.begin({ name: NAME, client: CLIENT, position: page.next, leaseMs: 1 });
  });

  /** A feed that reads at most this number of rows for a part of a page. It rests in real time, because the clock of the test stands still. */
  function feedReading(readLimit: number): SettlementFeed {
    const settlements = decorated(ports.settlements, { page: (next) => (asked) => next({ ...asked, readLimit }) });
    return new SettlementFeed(settlements, systemClock);
  }

  async function settle(client: string): Promise<void> {
    clock.advance(A_SECOND_MS);
    const claim = await givenClaim(ports.ledger, { claimBy: clock.monotonic() + LONG_MS, client });
    await givenSettled(ports.ledger, claim);
  }

  /** An empty commit moves the bound of the feed past the settlements. */
  async function listed(feed: Pick<SettlementFeed, 'read'>) {
    clock.advance(A_SECOND_MS);
    const [endpoint] = await createWebhookOperations(ports.endpointRows, feed, FILE).list();
    return endpoint;
  }

  /**
   * Bug: a list was answered with 503 because of one endpoint, and so was a stop that was made. Cause: the feed had no bound yet. Fix: an
   * endpoint is shown without how far it is behind.
   */
  test('is found and listed although the feed cannot be read', async () => {
    const feed = {
      read: async () => {
        throw new StoreUnavailable('unchanged', 'transactions on payments are open since before the first look');
      },
    };
    expect(await listed(feed)).toMatchObject({ name: NAME, receiver: 'https://shop.example', behind: undefined });
    const found = await createWebhookOperations(ports.endpointRows, feed, FILE).find(NAME);
    expect(found?.endpoint).toMatchObject({ name: NAME, behind: undefined });
  });

  /** Bug: an endpoint that was behind was shown as if nothing waited. Cause: all rows of the one page that was read were of other clients. */
  test('is behind by a settlement that comes after pages of other clients', async () => {
    for (let count = 0; count < 5; count += 1) await settle('key:other');
    await settle(CLIENT);
    expect(await listed(feedReading(2))).toMatchObject({ behind: { count: 1, sinceUs: expect.any(Number) } });
  });

  test('is not said to be behind by nothing if the reading ends among settlements of other clients', async () => {
    // More than ten pages of ten parts.
    for (let count = 0; count < 101; count += 1) await settle('key:other');
    await settle(CLIENT);
    expect(await listed(feedReading(1))).toMatchObject({ receiver: 'https://shop.example', behind: undefined });
  });
});
