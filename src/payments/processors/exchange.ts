import { buildConnector, type Dispatcher, Pool } from 'undici';
import { type Clock, systemClock } from '../../platform/clock.js';

/** A reply is one short JSON object; a longer one does not keep the contract. */
const LONGEST_REPLY_BYTES = 64 * 1024;
/** A busy connection would live for ever, and a new address of the processor would never be seen. Rare enough for a TLS handshake. */
export const CONNECTIONS_MAX_AGE_MS = 5 * 60_000;

export interface Question {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

type ReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

export type Reply =
  | { readonly complete: true; readonly status: number; readonly headers: ReplyHeaders; readonly body: Buffer }
  /** `status` is known when the reply broke off after its head. Not sent: no byte of the request has left, and none will. */
  | { readonly complete: false; readonly sent: boolean; readonly status: number | undefined; readonly cause: string };

/** HTTP/1.1 with one origin over kept connections: each question is sent at most once, and answered by one deadline. */
export interface Exchanges {
  /** Never throws and never asks twice: every failure is an incomplete reply with a readable cause. */
  ask(question: Question): Promise<Reply>;
  /** Later questions get new connections. An old one ends with the reply that it waits for. */
  renew(): void;
  /** Later questions get new connections, to a server with a certificate of these authorities (PEM). */
  trust(authorities: string): void;
  /** Closes the connections; a request that is still under way gets an incomplete reply. */
  close(): Promise<void>;
}

/**
 * The deadline counts from the call and covers the whole exchange: waiting for a connection, connecting, sending, and the
 * last byte of the reply. Redirects are not followed, and no proxy is taken from the environment.
 */
export function createExchanges(
  origin: string,
  timeoutMs: number,
  connections: number,
  options: {
    readonly clock?: Clock;
    readonly ca?: string | undefined;
    /** In place of one that trusts `ca`. */
    readonly connect?: buildConnector.connector;
  } = {},
): Exchanges {
  const { clock = systemClock } = options;
  // Shared by the pools, so that TLS sessions are resumed.
  let connect = options.connect ?? connectorWith(options.ca);
  function connectorWith(authorities: string | undefined) {
    return buildConnector({ timeout: timeoutMs, ...(authorities !== undefined && { ca: authorities }) });
  }
  const openPool = () =>
    new Pool(origin, {
      connections,
      // One request at a time: a lost connection never leaves others in doubt.
      pipelining: 1,
      maxResponseSize: LONGEST_REPLY_BYTES,
      connect,
      // These time-outs restart with every byte; our own deadline does not.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  const retired = new Set<Pool>();
  let pool = openPool();
  let openedAt = clock.monotonic();

  /**
   * The whole pool is replaced. With undici's `clientTtl`, 7.30 counts an old connection that is at work as one of `connections`, and gives
   * requests that wait to connections that it has closed (nodejs/undici issue 5144, pull request 5677).
   */
  function renew(): void {
    const old = pool;
    if (old.closed || old.destroyed) return;
    retired.add(old);
    old.close().finally(() => retired.delete(old));
    pool = openPool();
    openedAt = clock.monotonic();
  }

  function ask(question: Question): Promise<Reply> {
    return new Promise((resolve) => {
      const dueAt = clock.monotonic() + timeoutMs;
      let progress = 'the request was not sent';
      let status: number | undefined;
      let replyHeaders: ReplyHeaders = {};
      let connection: Dispatcher.DispatchController | undefined;
      let answered = false;
      let sent = false;
      const chunks: Buffer[] = [];

      function answer(reply: Reply): void {
        if (answered) return;
        answered = true;
        clearTimeout(timer);
        resolve(reply);
      }
      /** The connection is closed: a late reply must not be taken for the next request's. */
      function breakOff(cause: string): void {
        answer({ complete: false, sent, status, cause });
        connection?.abort(new Error(cause));
      }
      const tooLate = () => `${progress} within ${timeoutMs} ms`;
      const timer = setTimeout(() => breakOff(tooLate()), timeoutMs);

      if (clock.monotonic() - openedAt >= CONNECTIONS_MAX_AGE_MS) renew();
      pool.dispatch(question, {
        onRequestStart(controller) {
          // An error before the first byte removes the request from the queue and keeps the connection: a request that was
          // answered as not sent is never sent. The clock is asked because a process that was stopped may get here before its timers.
          if (answered || sent || clock.monotonic() >= dueAt) {
            const cause = sent ? 'the connection was lost' : tooLate();
            breakOff(cause);
            throw new Error(cause);
          }
          sent = true;
          connection = controller;
          progress = 'no reply came';
        },
        onResponseStart(_controller, code, headers) {
          if (code < 200) return; // RFC 9110 15.2: interim; the final one follows.
          status = code;
          replyHeaders = headers;
          progress = 'the reply did not end';
          const encoding = String(headers['content-encoding'] ?? 'identity');
          if (encoding.toLowerCase() !== 'identity') breakOff('the reply is encoded, which we do not accept');
        },
        onResponseData(_controller, chunk) {
          chunks.push(chunk);
        },
        onResponseEnd() {
          answer({ complete: true, status: status as number, headers: replyHeaders, body: Buffer.concat(chunks) });
        },
        onResponseError(_controller, error) {
          answer({ complete: false, sent, status, cause: `${progress} (${describe(error)})` });
        },
      });
    });
  }

  return {
    ask,
    renew,
    trust(authorities) {
      connect = connectorWith(authorities);
      renew();
    },
    async close() {
      await Promise.all([pool, ...retired].map((each) => each.destroy()));
    },
  };
}

/** Some errors of connecting have a code and no message. */
function describe(error: Error): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return [code, message].filter(Boolean).join(': ') || error.name;
}
