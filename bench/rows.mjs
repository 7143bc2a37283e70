// What is measured: kinds of requests, each with what has to be there before it, and with a check afterwards that the service
// really did what the row says.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createPayer } from './payers.mjs';
import { runWrk } from './wrk.mjs';

const TRANSACTION = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: 100.5 });
const JSON_TYPE = { 'Content-Type': 'application/json' };
const LIST = '/api/transactions';
const GENERATE_KEY = '/api/server-generated/generate-key';

/** As many as a list of some size has; all of them are read by id, and all fit into the cache (docs/specification.md). */
const TRANSACTIONS = 10_000;
/** New ones for each round: fewer than any cache of the service remembers, and many enough that none is a hot one. */
const REPEATED_PAYMENTS = 5000;
const MANY_CONNECTIONS = 256;
/** Preparation ends by count; this only bounds it. */
const PREPARATION = { seconds: 60, connections: 64 };
/** Longer than a create takes on a loaded machine. */
const STANDS_MS = 500;
const LEAST_HITS = 0.99;

/** Servers that take payments, where they are started. */
const WITH_PAYMENTS = [
  'naive',
  'node-idempotency',
  'unique-key',
  'express-idempotency',
  'powertools',
  'secured',
  'traced',
  'sampled',
  'before',
];
const WITH_KEYS = ['naive'];
const STORE_NOTHING = ['bare', 'relay'];

/**
 * @typedef {object} Row
 * @property {string} name  also in bench/targets.mjs
 * @property {number} [connections]  if not those of the run
 * @property {Record<string, string>} entrants  the server that takes each part: `ours`, `bare` and the peers
 * @property {(seconds: number) => Promise<Record<string, import('./wrk.mjs').Load>>} loads  before each round: what to send to each
 * @property {(results: Record<string, import('./wrk.mjs').Result>) => Promise<void>} [verify]
 *   after each round: throws when a server did not do what the row says
 */

/**
 * @param {Record<string, import('./contestants.mjs').Contestant>} servers
 * @param {string} folder  for files of keys and ids
 * @returns {Row[]}
 */
export function describeRows(servers, folder) {
  const payers = Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [name, createPayer(name, server, folder)]),
  );
  /** Those of `names` that take part, each by its name. */
  const present = (names) => Object.fromEntries(names.filter((name) => servers[name]).map((name) => [name, name]));
  const alone = { bare: 'bare', ours: 'ours', ...present(['before']) };
  const beside = { ...alone, ...present(WITH_PAYMENTS) };
  const withKeys = { ...alone, ...present(WITH_KEYS) };
  const overHttp = {
    bare: 'bare',
    relay: 'bare, HTTP',
    ours: 'ours, HTTP',
    ...Object.fromEntries(
      WITH_PAYMENTS.filter((name) => servers[`${name}, HTTP`]).map((name) => [name, `${name}, HTTP`]),
    ),
  };
  const delayed = { bare: 'bare', ours: 'ours, delayed', ...(servers.before && { before: 'before, delayed' }) };
  const transactions = createTransactions(servers, folder);

  return [
    firstPayments('first payment', beside, payers),
    firstPayments('first payment in two commits', delayed, payers),
    firstPayments('first payment over HTTP', overHttp, payers),
    { ...firstPayments('first payment (256 connections)', alone, payers), connections: MANY_CONNECTIONS },
    repeats('repeat', beside, payers),
    { ...repeats('repeat (256 connections)', alone, payers), connections: MANY_CONNECTIONS },
    transactions.knownList('list 304', alone),
    transactions.reads('read by id', alone),
    { ...transactions.reads('read by id (256 connections)', alone), connections: MANY_CONNECTIONS },
    {
      name: 'generate-key',
      entrants: withKeys,
      loads: async () => eachOf(withKeys, () => ({ script: 'report.lua', path: GENERATE_KEY })),
      async verify() {
        const issue = async () => (await fetch(servers.ours.url + GENERATE_KEY)).json();
        assert.notEqual(await issue(), await issue());
      },
    },
    {
      ...repeats('payment-status', withKeys, payers),
      loads: async () => paidLoads(withKeys, payers, (payer) => payer.statuses()),
    },
  ];
}

/** Every request pays with a key of its own, issued before the run. */
function firstPayments(name, entrants, payers) {
  return {
    name,
    entrants,
    loads: (seconds) =>
      eachInTurn(entrants, async (part, server) => {
        const load = await payers[server].firstPayments(seconds);
        return part === 'bare' ? payers[server].anyPayments() : load;
      }),
    async verify(results) {
      for (const [part, server] of Object.entries(entrants)) {
        payers[server].noteRate(results[part]);
        if (!STORE_NOTHING.includes(part)) await payers[server].checkFirstPayments(results[part]);
      }
    },
  };
}

function repeats(name, entrants, payers) {
  return {
    name,
    entrants,
    loads: () => paidLoads(entrants, payers, (payer) => payer.repeats()),
    async verify() {
      for (const [part, server] of Object.entries(entrants)) {
        if (part === 'bare') continue;
        const { isMarked } = await payers[server].checkRepeats();
        if (part === 'ours') assert.ok(isMarked, 'a repeat is not marked as one');
      }
    },
  };
}

/** Loads of payments that were made just before. */
function paidLoads(entrants, payers, loadOf) {
  return eachInTurn(entrants, async (_part, server) => {
    await payers[server].payFresh(REPEATED_PAYMENTS);
    return loadOf(payers[server]);
  });
}

/** The transactions of each build of the service: made once, when the first row needs them. */
function createTransactions(servers, folder) {
  const ids = (part) => join(folder, `${part}-transaction-ids`);
  const making = {};
  const make = (part) => {
    making[part] ??= runWrk(
      servers[part].url,
      {
        script: 'collect.lua',
        args: ['POST', LIST, TRANSACTION, '"transactionId":(%d+)', ids(part), String(TRANSACTIONS)],
        headers: JSON_TYPE,
      },
      PREPARATION,
    );
    return making[part];
  };
  const services = (entrants) => Object.keys(entrants).filter((part) => part !== 'bare');

  return {
    /** The list with the tag that it has: 304 from each server. */
    knownList(name, entrants) {
      let tags;
      return {
        name,
        entrants,
        async loads() {
          for (const part of services(entrants)) await make(part);
          tags ??= await eachInTurn(entrants, (part) => settledListTag(servers[part].url));
          return eachOf(entrants, (part) => ({
            script: 'report.lua',
            path: LIST,
            headers: { 'If-None-Match': tags[part] },
          }));
        },
        async verify() {
          for (const part of services(entrants)) {
            const answer = await fetch(servers[part].url + LIST, { headers: { 'If-None-Match': tags[part] } });
            assert.equal(answer.status, 304);
          }
        },
      };
    },
    /** Spread over all of them: nothing is gained by a look-up that two requests of one id share. */
    reads(name, entrants) {
      const before = {};
      const load = (part, mode) => ({ script: 'keyed.lua', args: ['GET', `${LIST}/{token}`, '', ids(part), mode] });
      return {
        name,
        entrants,
        async loads() {
          for (const part of services(entrants)) {
            await make(part);
            if (!before[part]) await runWrk(servers[part].url, load(part, 'once'), PREPARATION);
            before[part] = await lookUps(servers[part].url);
          }
          return eachOf(entrants, (part) => load(part === 'bare' ? 'ours' : part, 'cycle'));
        },
        async verify() {
          for (const part of services(entrants)) {
            const after = await lookUps(servers[part].url);
            const hits = (after.hits - before[part].hits) / (after.all - before[part].all);
            assert.ok(hits > LEAST_HITS, `only ${hits} of the reads were hits`);
          }
        },
      };
    },
  };
}

/** How often the service asked its cache by id, and how often the answer was there. */
async function lookUps(url) {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const counts = Array.from(metrics.matchAll(/^idempay_transaction_cache_lookups_total\{([^}]*)\} (\d+)$/gm));
  const sum = (some) => some.reduce((all, [, , count]) => all + Number(count), 0);
  return { all: sum(counts), hits: sum(counts.filter(([, labels]) => labels.includes('"hit"'))) };
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

function eachOf(entrants, loadOf) {
  return Object.fromEntries(Object.keys(entrants).map((part) => [part, loadOf(part)]));
}

/** One after the other: what prepares one part must not disturb another. */
async function eachInTurn(entrants, loadOf) {
  const loads = {};
  for (const [part, server] of Object.entries(entrants)) loads[part] = await loadOf(part, server);
  return loads;
}
