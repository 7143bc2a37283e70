import { expect, onTestFinished, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import type { ShownSettlements } from '../../testkit/client/settlements.js';
import { alongside } from '../../testkit/concurrency.js';
import { openPostgresFailover } from '../../testkit/deployments/postgres-failover.js';
import { startWebhookReceiver, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { pause, until } from '../../testkit/time/until.js';

const PAYERS = 8;
/** So many are paid before the standby is cut off, as many before the primary ends, and as many after the failover. */
const PAYMENTS = 40;
const CHARGE_MS = 50;
const DEADLINE_MS = 60_000;
const SETTLED = "SELECT key::text FROM idempay.payments WHERE state = 'COMPLETED'";
const TEN_MINUTES_BEFORE = "(SELECT max(began_at) - interval '10 minutes' FROM idempay.settlement_incarnations)";

/** A reader that keeps a cursor, and begins again where a 410 says. */
function createReader(begin: string) {
  const shown: string[] = [];
  let query = begin;
  let begunAgain = 0;
  return {
    shown,
    begunAgain: () => begunAgain,
    async readOn(url: string): Promise<void> {
      const path = `${url}/api/settlements?${query}&limit=20`;
      const answer = await ask(path, { headers: { Prefer: 'wait=1' } }).catch(() => undefined);
      if (answer?.status === 410) {
        begunAgain += 1;
        query = `from=${answer.headers['idempay-settlements-from']}`;
      } else if (answer?.status === 200) {
        const { settlements, next } = answer.json<ShownSettlements>();
        shown.push(...settlements.map(({ idempotencyKey }) => idempotencyKey));
        query = `after=${next}`;
      } else await pause(50);
    },
  };
}

/**
 * A real primary and its standby. The standby is cut off and lacks the last payments, or no payment is acknowledged that it lacks; the primary
 * ends under load and the standby is promoted. Rules E1 and E3: no row that survived is missing, for readers and for endpoints.
 */
test.each([
  ['lost rows', true],
  ['lost none', false],
])('after a failover that %s, readers and endpoints get every row that survived', async (_, isCutOff) => {
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.close());
  const late = await startWebhookReceiver('late');
  onTestFinished(() => late.close());
  const file = await writeEndpointFile([receiver.endpoint]);
  onTestFinished(file.remove);
  const failover = await openPostgresFailover(
    { latencyMs: CHARGE_MS, deduplicate: true },
    { WEBHOOKS_FILE: file.path },
  );
  const [killed, left] = failover.services;
  const urls = [killed.url, left.url];
  if (!isCutOff) await failover.waitForStandby();
  const keysOf = async (query: string, values: readonly unknown[] = []) =>
    (await failover.sqlOnStandby<{ key: string }>(query, values)).map(({ key }) => key);

  const acknowledged: string[] = [];
  const payOne = async (payer: number) => {
    const url = urls[payer % urls.length] as string;
    const key = await generateKey(url).catch(() => undefined);
    const answer = key === undefined ? undefined : await pay(url, key).catch(() => undefined);
    if (key !== undefined && answer?.status === 200) acknowledged.push(key);
    else await pause(50);
  };
  const untilPaid = (more: number) => {
    const wanted = acknowledged.length + more;
    return until(`${more} payments`, DEADLINE_MS, () => acknowledged.length >= wanted);
  };
  // An endpoint begins at the bound: the first payment that it is told is the first one that it must be told.
  await until('the endpoint to be served', DEADLINE_MS, async () => {
    await payOne(0);
    return receiver.taken.length > 0;
  });
  const reader = createReader('kind=all');
  let isToldBefore = new Set<string>();
  await alongside(
    1,
    () => reader.readOn(left.url),
    async () => {
      await alongside(PAYERS, payOne, async () => {
        await untilPaid(PAYMENTS);
        if (isCutOff) {
          const last = acknowledged.at(-1);
          const hasLast = () => failover.hasStandby(`${SETTLED} AND key = '${last}'`);
          await until('the standby to have them', DEADLINE_MS, hasLast);
          failover.cutOffStandby();
          // Its row is one of those that are lost.
          await file.change([receiver.endpoint, late.endpoint]);
          await until('the late endpoint to be served', DEADLINE_MS, () => late.taken.length > 0);
        }
        await untilPaid(PAYMENTS);
        isToldBefore = receiver.idsTaken();
        await failover.stopPrimary();
        const before = [...acknowledged];
        await failover.promoteStandby();
        const survived = new Set(await keysOf(SETTLED));
        const lost = before.filter((key) => !survived.has(key));
        if (isCutOff) expect(lost.length).toBeGreaterThan(0);
        else expect(lost).toEqual([]);
        // In the middle of its deliveries. The other one takes over.
        await killed.kill();
        urls.shift();
        await untilPaid(PAYMENTS);
      });
      const rows = await keysOf(
        `${SETTLED} AND settled_at >= (SELECT settled_at FROM idempay.payments WHERE key = $1)`,
        [receiver.taken[0]?.split('.')[0]],
      );
      expect(rows.length).toBeGreaterThan(PAYMENTS);
      const missing = () => rows.filter((key) => !receiver.idsTaken().has(`${key}.completed`));
      await until('the endpoint to be told all of them', DEADLINE_MS, () => missing().length === 0);
      const unread = () => rows.filter((key) => !reader.shown.includes(key));
      await until('the reader to read all of them', DEADLINE_MS, () => unread().length === 0);
      // The last ten minutes come once more.
      const lastRows = await keysOf(`${SETTLED} AND settled_at >= ${TEN_MINUTES_BEFORE}`);
      const kept = lastRows.map((key) => `${key}.completed`).filter((id) => isToldBefore.has(id));
      expect(kept.length).toBeGreaterThan(0);
      const isRepeated = (id: string) => receiver.taken.filter((each) => each === id).length > 1;
      await until('repeats', DEADLINE_MS, () => kept.every(isRepeated));
      // Nothing tells the row that was lost from a new one, so it begins as early.
      const isLateTold = () => !isCutOff || lastRows.every((key) => late.idsTaken().has(`${key}.completed`));
      await until('the late endpoint to be told all of these', DEADLINE_MS, isLateTold);
    },
  );
  expect(reader.begunAgain()).toBeGreaterThan(0);
  expect(receiver.unsigned).toEqual([]);
  for (const { id, data } of receiver.received) expect(id).toBe(`${data.idempotencyKey}.completed`);
});
