import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { createExchanges, type Exchanges } from '../payments/processors/exchange.js';
import type { Clock } from '../platform/clock.js';
import { VERSION } from '../platform/version.js';
import { isLoopbackAddress, refusalOfAddress } from './addresses.js';
import type { Endpoint } from './endpoint-file.js';
import { type Message, signedHeaders } from './message.js';

/** The limit from the call to the head of the answer, which Standard Webhooks recommends at least. */
const TIMEOUT_MS = 15_000;
/** Most lookups take less than a tenth of it, and one whose name server does not answer takes at least 5 s. */
const SLOW_LOOKUP_MS = 1_000;

/** Taken: the receiver answered 2xx. Gone: it answered 410, and wants nothing more. */
export type SendResult =
  | { readonly state: 'taken' }
  | { readonly state: 'gone' }
  | { readonly state: 'refused'; readonly cause: string };

/** Sends messages to the endpoints of this process. */
export interface Receivers {
  /** One try. Never throws. Nothing of an answer is kept but its status. */
  send(endpoint: Endpoint, message: Message): Promise<SendResult>;
  close(): Promise<void>;
}

/** A function like `dns.lookup` with `all`. A test has one of its own. */
export type Resolve = (
  hostname: string,
  options: LookupAllOptions,
  callBack: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

interface Connected extends Pick<Endpoint, 'url' | 'private'> {
  readonly exchanges: Exchanges;
}

/** `connections`: to each endpoint at once, at most. */
export function createReceivers(clock: Clock, connections: number, resolve: Resolve = lookup): Receivers {
  const connected = new Map<string, Connected>();
  const retired = new Set<Promise<void>>();
  const resolveInTurn = inTurn(resolve, clock);

  function exchangesWith(endpoint: Endpoint): Exchanges {
    const known = connected.get(endpoint.name);
    if (known && known.url === endpoint.url && known.private === endpoint.private) return known.exchanges;
    if (known) retire(known.exchanges);
    const connect = judgingConnector(endpoint, resolveInTurn);
    const exchanges = createExchanges(new URL(endpoint.url).origin, TIMEOUT_MS, connections, { clock, connect });
    connected.set(endpoint.name, { url: endpoint.url, private: endpoint.private, exchanges });
    return exchanges;
  }

  function retire(exchanges: Exchanges): void {
    const closing = exchanges.close().finally(() => retired.delete(closing));
    retired.add(closing);
  }

  return {
    async send(endpoint, message) {
      const { pathname, search } = new URL(endpoint.url);
      const reply = await exchangesWith(endpoint).ask({
        method: 'POST',
        path: pathname + search,
        headers: {
          'content-type': 'application/json',
          'user-agent': `Idempay/${VERSION}`,
          ...signedHeaders(message, endpoint, clock.now()),
        },
        body: message.body,
      });
      const { status } = reply;
      if (status === undefined) return { state: 'refused', cause: reply.complete ? 'no status' : reply.cause };
      if (status >= 200 && status < 300) return { state: 'taken' };
      return status === 410 ? { state: 'gone' } : { state: 'refused', cause: `it answered ${status}` };
    },

    async close() {
      for (const { exchanges } of connected.values()) retire(exchanges);
      connected.clear();
      await Promise.all(retired);
    },
  };
}

/**
 * Connects only to addresses that the endpoint may have. The name is resolved here and nowhere else, so that no second answer of a name
 * server can differ from the one that was judged.
 */
function judgingConnector(endpoint: Pick<Endpoint, 'url' | 'private'>, resolve: Resolve): buildConnector.connector {
  const isPlain = new URL(endpoint.url).protocol === 'http:';
  const refusalOf = (address: string) => {
    if (isPlain && !isLoopbackAddress(address)) return 'it is not on this machine, and the url is not https';
    return refusalOfAddress(address, endpoint.private === true);
  };

  const judgedLookup: Resolve = (hostname, options, callBack) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callBack(error, []);
      const allowed = addresses.filter(({ address }) => refusalOf(address) === undefined);
      const [first] = addresses;
      if (allowed.length > 0) return callBack(null, allowed);
      callBack(refused(hostname, first?.address ?? '', first ? refusalOf(first.address) : 'it has no address'), []);
    });

  const connect = buildConnector({ timeout: TIMEOUT_MS, lookup: oneOrAll(judgedLookup) });
  return (options, callBack) => {
    const host = options.hostname.replace(/^\[(.*)\]$/, '$1');
    const refusal = isIP(host) === 0 ? undefined : refusalOf(host);
    if (refusal === undefined) connect(options, callBack);
    else callBack(refused(host, host, refusal), null);
  };
}

/**
 * Looks up one name at a time, for all endpoints. libuv gives all lookups of a process two threads, in the order in which they were asked for:
 * receivers whose name server hangs would take both, and connections to the stores and the processor would wait for minutes. Now one thread
 * stays free for these. Connections that wait for the same name get the same addresses, and each judges them.
 *
 * The resolver ends a lookup that hangs, by default after 10 to 30 s for each name that it tries. Names whose last lookup was slow take turns:
 * after one of them, all others that wait come first. So another receiver waits for one such lookup at most, and none waits for ever.
 */
function inTurn(resolve: Resolve, clock: Clock): Resolve {
  /** By name, in the order in which they were asked for. */
  const waiting = new Map<string, Parameters<Resolve>[2][]>();
  const slow = new Set<string>();
  let round: string[] = [];
  let isBusy = false;

  function lookUpNext(options: LookupAllOptions): void {
    if (isBusy) return;
    if (round.length === 0) {
      const names = [...waiting.keys()];
      round = [...names.filter((name) => !slow.has(name)), ...names.filter((name) => slow.has(name)).slice(0, 1)];
    }
    const name = round.shift();
    if (name === undefined) return;
    isBusy = true;
    const beganAt = clock.monotonic();
    resolve(name, options, (error, addresses) => {
      isBusy = false;
      if (clock.monotonic() - beganAt < SLOW_LOOKUP_MS) slow.delete(name);
      else slow.add(name);
      const callBacks = waiting.get(name) ?? [];
      waiting.delete(name);
      lookUpNext(options);
      for (const callBack of callBacks) callBack(error, addresses);
    });
  }

  // All connections to receivers ask with the same options.
  return (name, options, callBack) => {
    waiting.set(name, [...(waiting.get(name) ?? []), callBack]);
    lookUpNext(options);
  };
}

/** `net.connect` asks for all addresses if it tries one after the other, and otherwise for one. */
function oneOrAll(judged: Resolve): LookupFunction {
  return (hostname, options, callBack) =>
    judged(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses;
      if (error || !first) callBack(error ?? new Error('no address'), '', 0);
      else if (options.all) callBack(null, addresses);
      else callBack(null, first.address, first.family);
    });
}

function refused(host: string, address: string, cause: string | undefined): Error {
  return new Error(`no connection to ${host}${address === host || address === '' ? '' : ` at ${address}`}: ${cause}`);
}
