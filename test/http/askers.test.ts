import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Scope } from '#idempay/access/scopes.js';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PAYER: readonly Scope[] = ['payments:write', 'payments:read', 'refunds:write'];
const shop = credentialOf('shop', PAYER);
const operator = credentialOf('operator', ['operations', 'refunds:write']);
const clerk = credentialOf('clerk', ['transactions:write']);

interface Event {
  readonly event: string;
  readonly by: string | null;
  readonly detail: string | null;
}

/** The client that asked is a part of the owner's name, which the row and its events keep. */
describeDeployments('who asked for a change', async (deployment) => {
  const { environment } = await requireKeys(shop, operator, clerk);
  const shared = shareProcessedService(
    deployment,
    { ...USUAL_BEHAVIOUR },
    { ...environment, PROCESSOR_DEDUP_SECONDS: '0' },
  );
  const send = (path: string, client: Credential, body: object = {}) =>
    sendJson(`${shared().url}${path}`, 'POST', body, client.headers);
  const keyOf = ({ headers }: Answer) => String(headers['idempotency-key']);
  const newOrder = () => `reference=order-${randomUUID()}`;

  async function eventsOf(key: string, client = operator): Promise<readonly Event[]> {
    const answer = await ask(`${shared().url}/api/payments/${key}/timeline`, client);
    expect(answer.status, answer.text).toBe(200);
    return answer.json<{ events: Event[] }>().events;
  }

  /** An operator sees who it was at these events, and the payer sees nobody. */
  async function expectAsked(key: string, events: readonly string[], by: string): Promise<void> {
    const asked = (await eventsOf(key)).filter((event) => event.by !== null);
    expect(asked.map(({ event }) => event)).toEqual(events);
    expect(new Set(asked.map((event) => event.by))).toEqual(new Set([by]));
    for (const event of await eventsOf(key, shop)) expect(event.by).toBeNull();
  }

  it.each([
    ['the payer', shop, '', 'key:shop'],
    ['an operator', operator, '&client=key:shop', 'key:operator'],
  ])('is kept of an order that %s closes', async (_who, client, named, by) => {
    const cancelled = await send(`/api/payment-cancellation?${newOrder()}${named}`, client);
    expect(cancelled.status, cancelled.text).toBe(200);
    await expectAsked(keyOf(cancelled), ['cancelled'], by);
  });

  it('is kept of a payment that an operator ends while it is under way, and of the attempt that is closed with it', async () => {
    const order = newOrder();
    shared().processor.behave({ pendingRate: 1 });
    const pending = await send(`/api/payment?${order}`, shop, { ...MONEY, returnUrl: 'https://shop.example/paid' });
    shared().processor.behave({ pendingRate: 0 });
    expect(pending.status, pending.text).toBe(202);
    const ended = await send(`/api/payment-cancellation?${order}&client=key:shop`, operator);
    expect(ended.status, ended.text).toBe(200);
    // The processor deduplicates nothing, so it is asked first if the charge has come.
    await expectAsked(keyOf(pending), ['taken over', 'looked up', 'settled'], 'key:operator');
    const next = await send(`/api/payment?${order}&attempt=2`, shop, MONEY);
    expect(next.status).toBe(410);
    await expectAsked(keyOf(next), ['cancelled'], 'key:operator');
  });

  it('is kept of a refund, and not of its payment', async () => {
    const order = newOrder();
    const paid = await send(`/api/payment?${order}`, shop, MONEY);
    const refunded = await send(`/api/refund?${order}&refund=line-1&client=key:shop`, operator, {
      ...MONEY,
      reason: 'out of stock',
    });
    expect(refunded.status, refunded.text).toBe(200);
    const key = String(refunded.headers['idempay-refund-key']);
    await expectAsked(key, ['claimed', 'refunded', 'settled'], 'key:operator');
    expect((await eventsOf(keyOf(paid))).every(({ by }) => by === null)).toBe(true);
  });

  it('is kept of a resolution, with its reason', async () => {
    shared().processor.behave({ refuseWith: 503 });
    const unknown = await send(`/api/payment?${newOrder()}`, shop, MONEY);
    expect(unknown.status).toBe(504);
    const key = keyOf(unknown);
    const resolved = await send(`/api/payments/${key}/resolution`, operator, {
      outcome: 'declined',
      reason: 'not on the statement',
    });
    shared().processor.behave({ refuseWith: null });
    expect(resolved.status, resolved.text).toBe(200);
    await expectAsked(key, ['resolved'], 'key:operator');
    expect((await eventsOf(key)).at(-1)?.detail).toBe('DECLINED: not on the statement');
  });

  it('is in the log of a transaction that is changed, and of one that is deleted', async () => {
    const created = await send('/api/transactions', clerk, { fromAccount: 'a', toAccount: 'b', amount: '1.00' });
    const { transactionId } = created.json<{ transactionId: number }>();
    const path = `${shared().url}/api/transactions/${transactionId}`;
    expect((await sendJson(`${path}/status`, 'PUT', { status: 'FLAGGED' }, clerk.headers)).status).toBe(200);
    expect((await ask(path, { method: 'DELETE', headers: clerk.headers })).status).toBe(204);
    const lines = shared().service.logs.filter(({ transaction }) => transaction === transactionId);
    expect(lines).toMatchObject([
      { client: 'key:clerk', status: 'FLAGGED', msg: 'a client changed the status of a transaction' },
      { client: 'key:clerk', msg: 'a client deleted a transaction' },
    ]);
  });
});
