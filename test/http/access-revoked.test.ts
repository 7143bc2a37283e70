import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Scope } from '#idempay/access/scopes.js';
import { type Credential, credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { changeStored, settledPayments, storeTransactions } from '../../testkit/protocol/stored-rows.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DAY_MS = 86_400_000;
/** Each some 14 MB: more than is read ahead and what the kernel holds for a client that takes nothing. */
const [TRANSACTIONS, PAYMENTS] = [22_000, 40_000];
/** A file of API keys is read within a second, and credentials are checked every four. Sooner than a client is cut for not reading. */
const CUT_WITHIN_MS = 8_000;

/** The beginning of an answer, of which the client takes no more until `rest`. That tells whether all of it came. */
async function begin(url: string, path: string, { headers }: Credential) {
  const [answer] = (await once(get(`${url}${path}`, { headers, agent: false }), 'response')) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  answer.on('error', () => {});
  await once(answer, 'readable');
  return async () => {
    // Not `once`, which would reject if the answer is cut.
    await new Promise((closed) => answer.resume().once('close', closed));
    return answer.complete;
  };
}

/**
 * Bug: an export and a list that was streamed went on to their end after their credential was revoked.
 * Cause: credentials were checked only when the request came.
 * Fix: every answer that goes on is cut when its credential is not good for its route any more.
 */
test('what goes on is cut when its key is revoked, and when its key loses the scope; not with another key', async () => {
  const scopes: readonly Scope[] = ['transactions:read', 'operations', 'metrics'];
  const [revoked, demoted, kept] = ['revoked', 'demoted', 'kept'].map((name) => credentialOf(name, scopes)) as [
    Credential,
    Credential,
    Credential,
  ];
  const folder = await mkdtemp(join(tmpdir(), 'idempay-revoked-'));
  const stores = await embedded.open();
  onTestFinished(async () => {
    await stores.close();
    await rm(folder, { recursive: true });
  });
  await (await stores.serve()).stop();
  const day = new Date(Date.now() - DAY_MS).toISOString().slice(0, 10);
  await storeTransactions(stores, TRANSACTIONS);
  await changeStored(stores, settledPayments(PAYMENTS, Date.parse(day)));
  const file = join(folder, 'keys.json');
  await writeFile(file, keyFileOf(revoked, demoted, kept));
  const { url } = await stores.serve({ AUTH: 'required', API_KEYS_FILE: file });

  const paths = ['/api/transactions', `/api/payments/export?day=${day}`];
  const open = (credential: Credential) => Promise.all(paths.map((path) => begin(url, path, credential)));
  const lost = await Promise.all([open(revoked), open(demoted)]);
  const others = await open(kept);

  const openConnections = async () => sumOf(await scrape(url, kept.headers), 'idempay_http_connections');
  /** The connections of the other client's answers, and of the one who asks. */
  const left = others.length + 1;

  const { entry, headers } = demoted;
  await writeFile(file, keyFileOf({ headers, entry: { ...entry, scopes: ['payments:read'] } }, kept));
  // The service is asked, because a client that takes nothing does not notice that its answer is cut.
  await until('the answers of both are cut', CUT_WITHIN_MS, async () => (await openConnections()) <= left);
  for (const rests of lost) expect(await Promise.all(rests.map((rest) => rest()))).toEqual([false, false]);
  expect(await Promise.all(others.map((rest) => rest()))).toEqual([true, true]);
  for (const path of paths) {
    expect((await ask(`${url}${path}`, revoked)).status).toBe(401);
    expect((await ask(`${url}${path}`, demoted)).status).toBe(403);
  }
});

/**
 * Bug: a reader that waited in the feed of settlements got those that were made after its key was revoked.
 * Cause: credentials were checked only when the request came.
 * Fix: they are checked again after the wait.
 */
test('a wait for settlements ends without any if its key is revoked, or does not show them any more', async () => {
  const scopes: readonly Scope[] = ['payments:read', 'payments:write', 'operations', 'metrics'];
  const [revoked, demoted] = [credentialOf('revoked', scopes), credentialOf('demoted', scopes)];
  const kept = credentialOf('kept', scopes);
  const folder = await mkdtemp(join(tmpdir(), 'idempay-revoked-'));
  const stores = await embedded.open();
  onTestFinished(async () => {
    await stores.close();
    await rm(folder, { recursive: true });
  });
  const file = join(folder, 'keys.json');
  await writeFile(file, keyFileOf(revoked, demoted, kept));
  const { url } = await stores.serve({ AUTH: 'required', API_KEYS_FILE: file });
  const read = (query: string, { headers }: Credential, more = {}) =>
    ask(`${url}/api/settlements?${query}`, { headers: { ...headers, ...more } });
  const { next } = (await read('after=now', kept)).json<{ next: string }>();
  const wait = (credential: Credential) => read(`after=${next}`, credential, { Prefer: 'wait=30' });
  const waits = [wait(revoked), wait(demoted), wait(kept)] as const;
  await until('all to wait', CUT_WITHIN_MS, async () => {
    return sumOf(await scrape(url, kept.headers), 'idempay_settlement_readers') === waits.length;
  });

  const fewer: Credential = { ...demoted, entry: { ...demoted.entry, scopes: ['payments:read'] } };
  await writeFile(file, keyFileOf(fewer, kept));
  await until('the key to be revoked', CUT_WITHIN_MS, async () => (await read('after=now', revoked)).status === 401);
  const paid = await sendJson(`${url}/api/payment?reference=order-1`, 'POST', MONEY, kept.headers);
  expect(paid.status, paid.text).toBe(200);
  const [ofRevoked, ofDemoted, ofKept] = await Promise.all(waits);
  expectError(ofRevoked, 401);
  expectError(ofDemoted, 403);
  expect(ofKept.json<{ settlements: unknown[] }>().settlements).toHaveLength(1);
});
