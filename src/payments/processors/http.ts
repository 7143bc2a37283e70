import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ChargeResult, ProcessorClient } from '../ports/processor.js';
import { cleanReason } from './decline-reason.js';
import { createExchanges, type Question, type Reply } from './exchange.js';
import { readProcessorUrl } from './processor-url.js';

/** Before anything was measured: card networks take about this long. */
const TYPICAL_MS = 1_000;

const succeeded = Compile(Type.Object({ status: Type.Literal('succeeded') }));
const declined = Compile(Type.Object({ status: Type.Literal('declined'), reason: Type.String() }));
const processing = Compile(Type.Object({ status: Type.Literal('processing') }));

/** Conflict: a charge under this key is under way. Too Early (RFC 8470): its outcome is not known yet. */
const STILL_AT_WORK = [409, 425];

const LOOK_AT_CONTRACT = 'look at PROCESSOR_URL: what answers there does not take our requests';
const LOOK_AT_CREDENTIALS = 'look at the user and password in PROCESSOR_URL';
/** Answers that only a person can repair, and where to look. */
const LOOK_UP_REFUSED: Readonly<Record<number, string>> = {
  400: LOOK_AT_CONTRACT,
  401: LOOK_AT_CREDENTIALS,
  403: LOOK_AT_CREDENTIALS,
  422: LOOK_AT_CONTRACT,
};
/** A look-up's 404 is an answer; a charge's is not. */
const CHARGE_REFUSED: Readonly<Record<number, string>> = {
  ...LOOK_UP_REFUSED,
  404: 'look at the path of PROCESSOR_URL',
};

/**
 * A processor reached over HTTP; `docs/guides/processor.md` is its contract. Only a whole reply that says so is an outcome;
 * everything else is unknown, and nothing is ever sent twice here.
 *
 * The deadline is `timeoutMs` from the call, and the monotonic clock is asked again right before the first byte, so a process
 * that was stopped between the lease check and the send does not send. What remains: a stop within those last instructions,
 * and bytes that wait in a socket or on the way. Such a charge arrives late, under the same `Idempotency-Key` as the one that
 * a takeover sent meanwhile, and the processor's own deduplication makes them one.
 *
 * `alarm` is called for answers that only a person can repair (a refused password, a path that is not there).
 */
export function createHttpProcessor(settings: {
  url: string;
  /** `PROCESSOR_ACCOUNT`. Undefined where the URL's user names the account. */
  account?: string | undefined;
  timeoutMs: number;
  dedupMs: number;
  /** To the processor at once, at most. */
  connections: number;
  alarm: (cause: string) => void;
  /** Headers of the trace under way, sent with each request; undefined where nothing is traced. */
  traceHeaders?: (() => Record<string, string>) | undefined;
}): ProcessorClient {
  const { url, account, timeoutMs, dedupMs, connections, alarm, traceHeaders } = settings;
  const location = readProcessorUrl(url, account);
  if (!location) throw new TypeError('the URL of a processor must have passed readProcessorUrl');
  const { name, origin, path, authorization } = location;
  const exchanges = createExchanges(origin, timeoutMs, connections);
  let isAway = false;
  let movesMoney: boolean | null = null;

  async function ask(question: Question): Promise<Reply> {
    const reply = await exchanges.ask({
      ...question,
      path: `${path}${question.path}`,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        ...(authorization && { authorization }),
        ...traceHeaders?.(),
        ...question.headers,
      },
    });
    isAway = !reply.complete || reply.status >= 500;
    if (reply.complete) movesMoney = String(reply.headers['moves-money']).toLowerCase() !== 'no';
    return reply;
  }

  function unclear(asked: string, reply: Reply, refusals: Readonly<Record<number, string>>): ChargeResult {
    const cause = causeOf(asked, reply);
    const lookAt = refusals[reply.status ?? 0];
    if (lookAt !== undefined) alarm(`${cause}: ${lookAt}`);
    return { state: 'unknown', cause };
  }

  return {
    traits: { name, typicalMs: Math.min(TYPICAL_MS, timeoutMs), timeoutMs, dedupMs },

    async charge({ reference, transactionId, amount, currency }) {
      const reply = await ask({
        method: 'POST',
        path: '/charges',
        headers: { 'idempotency-key': reference, 'content-type': 'application/json' },
        body: JSON.stringify({ transactionId, amount, currency }),
      });
      if (reply.complete) {
        const body = readJson(reply.body);
        if (reply.status >= 200 && reply.status <= 299 && succeeded.Check(body)) return { state: 'succeeded' };
        if (reply.status === 402 && declined.Check(body))
          return { state: 'declined', reason: cleanReason(body.reason) };
      }
      if (!reply.complete && !reply.sent) return { state: 'not sent', cause: reply.cause };
      return unclear('a charge', reply, CHARGE_REFUSED);
    },

    async lookUp(reference) {
      const reply = await ask({ method: 'GET', path: `/charges/${encodeURIComponent(reference)}`, headers: {} });
      if (reply.complete && reply.status === 404) return { state: 'no record' };
      if (reply.complete && reply.status === 200) {
        const body = readJson(reply.body);
        if (succeeded.Check(body)) return { state: 'succeeded' };
        if (declined.Check(body)) return { state: 'declined', reason: cleanReason(body.reason) };
      }
      return unclear('a look-up', reply, LOOK_UP_REFUSED);
    },

    get isAway() {
      return isAway;
    },

    get movesMoney() {
      return movesMoney;
    },

    close: exchanges.close,
  };
}

function causeOf(asked: string, reply: Reply): string {
  const { status } = reply;
  const answered = `the processor answered ${status} to ${asked}`;
  if (!reply.complete) return status === undefined ? reply.cause : `${answered}, but ${reply.cause}`;
  if (STILL_AT_WORK.includes(reply.status) || processing.Check(readJson(reply.body)))
    return `${answered}: still at work`;
  return `${answered}, which settles nothing`;
}

/** Undefined when it is not JSON in UTF-8: no schema takes that. */
function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}
