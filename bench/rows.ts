// The measured rows: kinds of requests, each with its preparation, and with a check afterwards that the service really did what the row
// says.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { ask, generateKey } from '../testkit/client/http-client.js';
import { type Sample, scrape, sumOf } from '../testkit/client/metrics.js';
import { pause } from '../testkit/time/until.js';
import type { Contestants } from './contestants.js';
import { Payer } from './payers.js';
import { type Load, runWrk, type WrkResult } from './wrk.js';

const TRANSACTION = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: 100.5 });
const JSON_TYPE = { 'Content-Type': 'application/json' };
const LIST = '/api/transactions';
const GENERATE_KEY = '/api/server-generated/generate-key';
const LOOK_UPS = 'idempay_transaction_cache_lookups_total';

/** As many as a list of some size has; all of them are read by id, and all fit into the cache (docs/engineering/specification.md). */
const TRANSACTIONS = 10_000;
/** New ones for each round: fewer than any cache of the service remembers, and many enough that none is a hot one. */
const REPEATED_PAYMENTS = 5000;
const MANY_CONNECTIONS = 256;
/** Preparation ends by count; this only bounds it. */
const PREPARATION = { seconds: 60, connections: 64 };
/** Longer than a create takes on a loaded machine. */
const STANDS_MS = 500;
const LEAST_HITS = 0.99;

const STORE_NOTHING = ['bare', 'relay'];
/** Services that take part if they were started. */
const VERSIONS = ['before', 'node24'];
const TRACED = ['traced', 'sampled'];

/** The server that takes each part: `ours`, `bare` and the peers. */
type Entrants = Readonly<Record<string, string>>;
export type Loads = Readonly<Record<string, Load>>;

export interface MeasuredRow {
  /** Also in the targets of `tables.ts`. */
  readonly name: string;
  /** If omitted, the run's connections. */
  readonly connections?: number;
  readonly entrants: Entrants;
  /** Before each round: what to send to each. */
  loads(seconds: number): Promise<Loads>;
  /** After each round: throws when a server did not do what the row says. */
  verify(results: Readonly<Record<string, WrkResult>>): Promise<void>;
}

/** Files of keys and ids are in `folder`. */
export function describeRows(servers: Contestants, folder: string): readonly MeasuredRow[] {
  const urlOf = (server: string) => servers.get(server)?.url ?? '';
  const payers = new Payers(urlOf, folder);
  const transactions = new Transactions(urlOf, folder);
  /** The servers in `names` that take part, each by its name. */
  const present = (names: readonly string[], suffix = '') =>
    Object.fromEntries(
      names.filter((name) => servers.has(`${name}${suffix}`)).map((name) => [name, `${name}${suffix}`]),
    );
  const alone = { bare: 'bare', ours: 'ours', ...present(VERSIONS) };
  const withKeys = { ...alone, naive: 'naive' };
  const withPayments = { ...withKeys, ...present(TRACED) };
  const overHttp = { bare: 'bare', relay: 'bare, HTTP', ...present(['ours', ...VERSIONS], ', HTTP') };
  const delayed = { bare: 'bare', ...present(['ours', ...VERSIONS], ', delayed') };
  const many = { connections: MANY_CONNECTIONS };
  return [
    payers.first('first payment', withPayments),
    payers.first('first payment in two commits', delayed),
    payers.first('first payment over HTTP', overHttp),
    { ...payers.first('first payment (256 connections)', alone), ...many },
    payers.orders('first payment of an order'),
    payers.again('repeat', withPayments, (payer) => payer.repeats()),
    { ...payers.again('repeat (256 connections)', alone, (payer) => payer.repeats()), ...many },
    transactions.knownList('list 304', alone),
    transactions.reads('read by id', alone),
    { ...transactions.reads('read by id (256 connections)', alone), ...many },
    {
      name: 'generate-key',
      entrants: withKeys,
      loads: async () => eachOf(withKeys, () => ({ script: 'report.lua', path: GENERATE_KEY })),
      async verify() {
        assert.notEqual(await generateKey(urlOf('ours')), await generateKey(urlOf('ours')));
      },
    },
    payers.again('payment-status', withKeys, (payer) => payer.statuses()),
  ];
}

class Payers {
  readonly #byServer = new Map<string, Payer>();

  constructor(
    private readonly urlOf: (server: string) => string,
    private readonly folder: string,
  ) {}

  /** Every request pays with a key of its own, issued before the run. */
  first(name: string, entrants: Entrants): MeasuredRow {
    return {
      name,
      entrants,
      loads: (seconds) =>
        eachInTurn(entrants, async (part, server) => {
          const load = await this.#of(server).firstPayments(seconds);
          return part === 'bare' ? this.#of(server).anyPayments() : load;
        }),
      verify: async (results) => {
        for (const [part, server] of Object.entries(entrants)) {
          const result = results[part];
          if (!result) continue;
          this.#of(server).noteRate(result);
          if (!STORE_NOTHING.includes(part)) await this.#of(server).checkFirstPayments(result);
        }
      },
    };
  }

  /** In one request, by a reference of its own, next to a payment whose key was issued before (`keyed`). */
  orders(name: string): MeasuredRow {
    const entrants = { bare: 'bare', ours: 'ours', keyed: 'ours' };
    return {
      name,
      entrants,
      loads: async (seconds) => ({
        bare: (await this.#of('bare').firstPayments(seconds)) && this.#of('bare').anyPayments(),
        ours: await this.#of('ours').orders(seconds),
        keyed: await this.#of('ours').firstPayments(seconds),
      }),
      verify: async ({ ours, keyed }) => {
        if (keyed) await this.#of('ours').checkFirstPayments(keyed);
        if (ours) await this.#of('ours').checkOrders(ours);
      },
    };
  }

  /** Requests about payments that were made just before. */
  again(name: string, entrants: Entrants, loadOf: (payer: Payer) => Load): MeasuredRow {
    return {
      name,
      entrants,
      loads: () =>
        eachInTurn(entrants, async (_part, server) => {
          await this.#of(server).payFresh(REPEATED_PAYMENTS);
          return loadOf(this.#of(server));
        }),
      verify: async () => {
        for (const [part, server] of Object.entries(entrants)) {
          if (part === 'bare') continue;
          const { isMarked } = await this.#of(server).checkRepeats();
          if (part === 'ours') assert.ok(isMarked, 'a repeat is not marked as one');
        }
      },
    };
  }

  #of(server: string): Payer {
    const payer =
      this.#byServer.get(server) ?? new Payer(server, this.urlOf(server), this.folder, !server.startsWith('bare'));
    this.#byServer.set(server, payer);
    return payer;
  }
}

/** The transactions of each version of the service: made once, when the first row needs them. */
class Transactions {
  readonly #made = new Set<string>();

  constructor(
    private readonly urlOf: (server: string) => string,
    private readonly folder: string,
  ) {}

  /** The list with the tag that it has: 304 from each server. */
  knownList(name: string, entrants: Entrants): MeasuredRow {
    const tags: Record<string, string> = {};
    return {
      name,
      entrants,
      loads: async (): Promise<Loads> => {
        await this.#make(entrants);
        for (const part of Object.keys(entrants)) tags[part] ??= await settledListTag(this.urlOf(part));
        return eachOf(entrants, (part) => ({
          script: 'report.lua',
          path: LIST,
          headers: { 'If-None-Match': tags[part] ?? '' },
        }));
      },
      verify: async () => {
        for (const part of servicesOf(entrants)) {
          const answer = await ask(this.urlOf(part) + LIST, { headers: { 'If-None-Match': tags[part] ?? '' } });
          assert.equal(answer.status, 304);
        }
      },
    };
  }

  /** Spread over all of them: nothing is gained by a look-up that two requests of one id share. */
  reads(name: string, entrants: Entrants): MeasuredRow {
    const before = new Map<string, readonly Sample[]>();
    const load = (part: string, mode: 'once' | 'cycle') => {
      const args = ['GET', `${LIST}/{token}`, '', this.#idsOf(part), mode];
      return { script: 'keyed.lua', args };
    };
    return {
      name,
      entrants,
      loads: async () => {
        await this.#make(entrants);
        for (const part of servicesOf(entrants)) {
          if (!before.has(part)) await runWrk(this.urlOf(part), load(part, 'once'), PREPARATION);
          before.set(part, await scrape(this.urlOf(part)));
        }
        return eachOf(entrants, (part) => load(part === 'bare' ? 'ours' : part, 'cycle'));
      },
      verify: async () => {
        for (const part of servicesOf(entrants)) {
          const after = await scrape(this.urlOf(part));
          const grown = (labels: Sample['labels']) =>
            sumOf(after, LOOK_UPS, labels) - sumOf(before.get(part) ?? [], LOOK_UPS, labels);
          const hits = grown({ result: 'hit' }) / grown({});
          assert.ok(hits > LEAST_HITS, `only ${hits} of the reads were hits`);
        }
      },
    };
  }

  #idsOf(part: string): string {
    return join(this.folder, `${part}-transaction-ids`);
  }

  async #make(entrants: Entrants): Promise<void> {
    for (const part of servicesOf(entrants)) {
      if (this.#made.has(part)) continue;
      this.#made.add(part);
      const args = ['POST', LIST, TRANSACTION, '"transactionId":(%d+)', this.#idsOf(part), String(TRANSACTIONS)];
      await runWrk(this.urlOf(part), { script: 'collect.lua', args, headers: JSON_TYPE }, PREPARATION);
    }
  }
}

const servicesOf = (entrants: Entrants) => Object.keys(entrants).filter((part) => part !== 'bare');

/** The last creates may still be under way when wrk has gone, so the tag is asked for until it stands. */
async function settledListTag(url: string): Promise<string> {
  for (let tag = await listTag(url); ; ) {
    await pause(STANDS_MS);
    const again = await listTag(url);
    if (again === tag) return tag;
    tag = again;
  }
}

async function listTag(url: string): Promise<string> {
  const { headers } = await ask(url + LIST);
  return headers.etag ?? '';
}

function eachOf(entrants: Entrants, loadOf: (part: string) => Load): Loads {
  return Object.fromEntries(Object.keys(entrants).map((part) => [part, loadOf(part)]));
}

/** One after the other: what prepares one part must not disturb another. */
async function eachInTurn(entrants: Entrants, loadOf: (part: string, server: string) => Promise<Load>): Promise<Loads> {
  const loads: Record<string, Load> = {};
  for (const [part, server] of Object.entries(entrants)) loads[part] = await loadOf(part, server);
  return loads;
}
