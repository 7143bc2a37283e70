// What is measured: six kinds of requests, each with what has to be there before it, and with a check afterwards that the
// service really did what the row says.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
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
/** Longer than a create takes on a loaded machine. */
const STANDS_MS = 500;

/**
 * @typedef {'ours' | 'secured' | 'traced' | 'sampled' | 'bare' | 'naive'} Name
 *   the service, the service with an API key, with traces of all requests and of one in a hundred, the bare Fastify, and the naive port, which takes part in the payment rows of the distributed deployment
 *
 * @typedef {object} Row
 * @property {string} name
 * @property {(seconds: number) => Promise<Partial<Record<Name, import('./wrk.mjs').Load>>>} loads
 *   before each round: what to send to each server
 * @property {(results: Record<Name, import('./wrk.mjs').Result>) => Promise<void>} verify
 *   after each round: throws when a server did not do what the row says
 */

/**
 * The rows in the order in which they have to run: the first one leaves the payments that later ones repeat.
 * @param {{ servers: Record<Name, import('./service.mjs').Server | undefined>, folder: string, connections: number }} target
 * @returns {Row[]}
 */
export function describeRows({ servers, folder, connections }) {
  const urls = Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url]));
  const collector =
    (url) =>
    (args, headers = {}) =>
      runWrk(url, { script: 'collect.lua', args, headers }, { seconds: PREPARATION_SECONDS, connections });
  const ids = join(folder, 'transaction-ids');
  const payers = ['ours', 'naive', 'secured', 'traced', 'sampled']
    .filter((name) => servers[name])
    .map((name) => createPayer({ name, ...servers[name], folder, collect: collector(urls[name]) }));
  const finished = payers[0].finished;
  const repeats = (path, load) => ({
    bare: load(path, finished),
    ...Object.fromEntries(payers.map((payer) => [payer.name, load(path, payer.finished, payer.headers)])),
  });
  const pay = (path, tokens, headers) =>
    keyed('POST', path, PAYMENT, tokens, { ...JSON_TYPE, ...KEY_HEADER, ...headers });
  const ask = (path, tokens, headers) => keyed('GET', path, '', tokens, { ...KEY_HEADER, ...headers });
  const generate = { script: 'report.lua', path: GENERATE_KEY };

  return [
    firstPayments(payers),
    {
      name: 'repeat of a finished payment',
      loads: async () => repeats('/api/payment', pay),
      verify: async () => {
        const answer = await payOnce(urls.ours, await firstLine(finished));
        assert.equal(answer.headers.get('idempotent-replayed'), 'true');
      },
    },
    knownList({ url: urls.ours, bareUrl: urls.bare, ids, collect: collector(urls.ours) }),
    {
      name: 'read of one transaction, cached',
      loads: async () => {
        const load = keyed('GET', '/api/transactions/{token}', '', ids);
        return { ours: load, bare: load };
      },
      verify: async () => {
        const answer = await fetch(`${urls.ours}/api/transactions/${await firstLine(ids)}`);
        assert.equal(answer.headers.get('cache-status'), 'transactionCache; hit');
      },
    },
    {
      name: 'generate-key',
      loads: async () => ({ ours: generate, bare: generate, ...(urls.naive && { naive: generate }) }),
      verify: async () => {
        const issue = async () => (await fetch(urls.ours + GENERATE_KEY)).json();
        assert.notEqual(await issue(), await issue());
      },
    },
    {
      name: 'payment-status',
      loads: async () => repeats('/api/payment-status', ask),
      verify: async () => assert.match(await statusOf(urls.ours, await firstLine(finished)), /Transaction ID: TXN\d+/),
    },
  ];
}

/** Every request pays with a key of its own, issued before the run. @returns {Row} */
function firstPayments(payers) {
  return {
    name: 'first payment',
    async loads(seconds) {
      for (const payer of payers) await payer.issue(seconds);
      const load = (keys, mode, more) =>
        keyed('POST', '/api/payment', PAYMENT, keys, { ...JSON_TYPE, ...KEY_HEADER, ...more }, mode);
      return {
        bare: load(payers[0].keys, 'cycle'),
        ...Object.fromEntries(payers.map(({ name, keys, headers }) => [name, load(keys, 'once', headers)])),
      };
    },
    async verify(results) {
      for (const payer of payers) await payer.verify(results[payer.name]);
    },
  };
}

/** The keys of one server: those that a round will pay with, and those that the last one has paid with. */
function createPayer({ name, url, headers = {}, folder, collect }) {
  const keys = join(folder, `${name}-keys`);
  const finished = join(folder, `${name}-finished-keys`);
  let keysForASecond = 0;
  let issued = 0;
  return {
    name,
    headers,
    keys,
    finished,
    async issue(seconds) {
      issued = Math.max(FIRST_KEYS, Math.ceil(keysForASecond * seconds * SPARE_KEYS));
      await collect(['GET', GENERATE_KEY, '', '"([^"]+)"', keys, String(issued)], headers);
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
      for (const key of distinct) told.add(await statusOf(url, key, headers));
      // The naive port takes its ids from the clock alone, as ports do: two payments of one millisecond share one.
      if (name !== 'naive') assert.equal(told.size, distinct.size, 'two keys show one transaction id');
    },
  };
}

/** The list with the tag that it has: 304 from either server. @returns {Row} */
function knownList({ url, bareUrl, ids, collect }) {
  let tag;
  let bareTag;
  return {
    name: `list of ${LISTED_TRANSACTIONS} with a known tag, 304`,
    async loads() {
      if (tag === undefined) {
        const create = ['POST', LIST, TRANSACTION, '"transactionId":(%d+)', ids];
        await collect([...create, String(LISTED_TRANSACTIONS)], JSON_TYPE);
        await writeLines(ids, (await linesOf(ids)).slice(0, CACHED_TRANSACTIONS));
        [tag, bareTag] = await Promise.all([url, bareUrl].map(settledListTag));
      }
      const load = (known) => ({ script: 'report.lua', path: LIST, headers: { 'If-None-Match': known } });
      return { ours: load(tag), bare: load(bareTag) };
    },
    async verify() {
      const answer = await fetch(url + LIST, { headers: { 'If-None-Match': tag } });
      assert.equal(answer.status, 304);
    },
  };
}

/** @returns {import('./wrk.mjs').Load} */
function keyed(method, path, body, tokens, headers = {}, mode = 'cycle') {
  return { script: 'keyed.lua', args: [method, path, body, tokens, mode], headers };
}

/** The last creates may still be under way when wrk has gone, so the tag is asked for until it stands. */
async function settledListTag(url) {
  for (let tag = await listTag(url); ; ) {
    await delay(STANDS_MS);
    const again = await listTag(url);
    if (again === tag) return tag;
    tag = again;
  }
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
async function statusOf(url, key, headers = {}) {
  const end = performance.now() + SETTLE_DEADLINE_MS;
  for (;;) {
    const answer = await fetch(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key, ...headers } });
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
