// What is measured: six kinds of requests, each with what has to be there before it, and with a check afterwards that the
// service really did what the row says.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runWrk } from './wrk.mjs';

const PAYMENT = JSON.stringify({ amount: '100.50', currency: 'USD' });
const TRANSACTION = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: 100.5 });
const JSON_TYPE = { 'Content-Type': 'application/json' };
const KEY_HEADER = { 'Idempotency-Key': '{token}' };
const LIST = '/api/transactions';
const GENERATE_KEY = '/api/server-generated/generate-key';

/** As many as a list of some size has, for the row whose point is that the size does not matter. */
const LISTED_TRANSACTIONS = 10_000;
/** Enough that no single entry is read from a processor's cache all the time, few enough to stay in the service's. */
const CACHED_TRANSACTIONS = 1000;
const REPEATED_PAYMENTS = 10_000;
/** For the warm-up, before any rate is known. */
const FIRST_KEYS = 20_000;
/** A round may be faster than the fastest before it; when it is faster still, it ends when its keys run out. */
const SPARE_KEYS = 1.4;
const CHECKED_PAYMENTS = 200;
/** Preparation ends by count; this only bounds it. */
const PREPARATION_SECONDS = 60;
const SETTLE_DEADLINE_MS = 5000;

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {(seconds: number) => Promise<{ ours: import('./wrk.mjs').Load, peer: import('./wrk.mjs').Load }>} loads
 *   before each round: what to send to either server
 * @property {(result: import('./wrk.mjs').Result) => Promise<void>} verify
 *   after each run of the service: throws when it did not do what the row says
 */

/**
 * The rows in the order in which they have to run: the first one leaves the payments that later ones repeat.
 * @param {{ url: string, peerUrl: string, folder: string, connections: number }} target
 * @returns {Row[]}
 */
export function describeRows({ url, peerUrl, folder, connections }) {
  const keys = join(folder, 'keys');
  const finished = join(folder, 'finished-keys');
  const ids = join(folder, 'transaction-ids');
  const collect = (args, headers = {}) =>
    runWrk(url, { script: 'collect.lua', args, headers }, { seconds: PREPARATION_SECONDS, connections });

  return [
    firstPayments({ url, keys, finished, collect }),
    {
      name: 'repeat of a finished payment',
      loads: same(() => keyed('POST', '/api/payment', PAYMENT, finished, { ...JSON_TYPE, ...KEY_HEADER })),
      verify: async () => {
        const answer = await payOnce(url, await firstLine(finished));
        assert.equal(answer.headers.get('idempotent-replayed'), 'true');
      },
    },
    knownList({ url, peerUrl, ids, collect }),
    {
      name: 'read of one transaction, cached',
      loads: same(() => keyed('GET', '/api/transactions/{token}', '', ids)),
      verify: async () => {
        const answer = await fetch(`${url}/api/transactions/${await firstLine(ids)}`);
        assert.equal(answer.headers.get('cache-status'), 'transactionCache; hit');
      },
    },
    {
      name: 'generate-key',
      loads: same(() => ({ script: 'report.lua', path: GENERATE_KEY })),
      verify: async () => {
        const [one, other] = await Promise.all([0, 1].map(async () => (await fetch(url + GENERATE_KEY)).json()));
        assert.notEqual(one, other);
      },
    },
    {
      name: 'payment-status',
      loads: same(() => keyed('GET', '/api/payment-status', '', finished, KEY_HEADER)),
      verify: async () => assert.match(await statusOf(url, await firstLine(finished)), /Transaction ID: TXN\d+/),
    },
  ];
}

/** Every request pays with a key of its own, issued before the run. @returns {Row} */
function firstPayments({ url, keys, finished, collect }) {
  let keysForASecond = 0;
  let issued = 0;
  return {
    name: 'first payment',
    async loads(seconds) {
      issued = Math.max(FIRST_KEYS, Math.ceil(keysForASecond * seconds * SPARE_KEYS));
      await collect(['GET', GENERATE_KEY, '', '"([^"]+)"', keys, String(issued)]);
      const load = (mode) => keyed('POST', '/api/payment', PAYMENT, keys, { ...JSON_TYPE, ...KEY_HEADER }, mode);
      return { ours: load('once'), peer: load('cycle') };
    },
    async verify({ requests, requestsPerSecond, used }) {
      keysForASecond = Math.max(keysForASecond, requestsPerSecond);
      assert.ok(requests <= used && used <= issued, `${requests} answers to ${used} of ${issued} keys`);
      // No key is sent twice, so an answer of 200 (wrk counts the others as errors) is a first one, if it is a payment.
      // wrk takes one request before it starts and never sends it: the first key was not paid.
      const paid = (await linesOf(keys)).slice(1, used);
      await writeLines(finished, paid.slice(0, REPEATED_PAYMENTS));
      const sample = Array.from({ length: CHECKED_PAYMENTS }, () => paid[Math.floor(Math.random() * paid.length)]);
      const distinct = new Set(sample);
      const told = new Set();
      for (const key of distinct) told.add(await statusOf(url, key));
      assert.equal(told.size, distinct.size, 'two keys show one transaction id');
    },
  };
}

/** The list with the tag that it has: 304 from either server. @returns {Row} */
function knownList({ url, peerUrl, ids, collect }) {
  let tag;
  let peerTag;
  return {
    name: `list of ${LISTED_TRANSACTIONS} with a known tag, 304`,
    async loads() {
      if (tag === undefined) {
        const create = ['POST', LIST, TRANSACTION, '"transactionId":(%d+)', ids];
        await collect([...create, String(LISTED_TRANSACTIONS)], JSON_TYPE);
        await writeLines(ids, (await linesOf(ids)).slice(0, CACHED_TRANSACTIONS));
        [tag, peerTag] = await Promise.all([url, peerUrl].map(listTag));
      }
      const load = (known) => ({ script: 'report.lua', path: LIST, headers: { 'If-None-Match': known } });
      return { ours: load(tag), peer: load(peerTag) };
    },
    async verify() {
      const answer = await fetch(url + LIST, { headers: { 'If-None-Match': tag } });
      assert.equal(answer.status, 304);
    },
  };
}

/** The same load for both servers. */
function same(load) {
  return async () => ({ ours: load(), peer: load() });
}

/** @returns {import('./wrk.mjs').Load} */
function keyed(method, path, body, tokens, headers = {}, mode = 'cycle') {
  return { script: 'keyed.lua', args: [method, path, body, tokens, mode], headers };
}

async function listTag(url) {
  const answer = await fetch(url + LIST);
  await answer.arrayBuffer();
  return answer.headers.get('etag');
}

function payOnce(url, key) {
  return fetch(`${url}/api/payment`, {
    method: 'POST',
    headers: { ...JSON_TYPE, 'Idempotency-Key': key },
    body: PAYMENT,
  });
}

/** The text of payment-status. The last payments of a run may still be under way when wrk has gone, so it is asked again. */
async function statusOf(url, key) {
  const end = performance.now() + SETTLE_DEADLINE_MS;
  for (;;) {
    const answer = await fetch(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key } });
    const body = await answer.text();
    if (answer.status === 200) return JSON.parse(body);
    assert.ok(performance.now() < end, `payment-status of a paid key: ${answer.status} ${body}`);
  }
}

async function linesOf(file) {
  return (await readFile(file, 'utf8')).trimEnd().split('\n');
}

async function firstLine(file) {
  return (await linesOf(file))[0];
}

function writeLines(file, lines) {
  return writeFile(file, `${lines.join('\n')}\n`);
}
