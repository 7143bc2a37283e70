import type { Clock } from '../../platform/clock.js';
import type { ProcessorClient } from '../ports/processor.js';
import { createExchanges, type Question } from './exchange.js';
import {
  type Asked,
  addressed,
  carriedWith,
  causeOf,
  chargeQuestion,
  chargeResultOf,
  contractIn,
  doubtIn,
  endingQuestion,
  endResultOf,
  lookUpQuestion,
  lookUpResultOf,
  NOTHING_CARRIED,
  readsContent,
  refundLookUpQuestion,
  refundLookUpResultOf,
  refundQuestion,
  refundResultOf,
  type Subject,
  whereToLook,
} from './messages.js';
import { readProcessorUrl } from './processor-url.js';

/** Before anything was measured: card networks take about this long. */
const TYPICAL_MS = 1_000;
/** A wrong setting fails every payment: often enough to be seen at once, too seldom to bury the rest of the log. */
const ALARM_EVERY_MS = 10_000;

/** A processor whose password, and the authorities of whose certificate, may change while the service runs. */
export interface RenewableProcessor extends ProcessorClient {
  /** Takes the password of this URL. Returns false if anything else differs, and changes nothing then. */
  takeUrl(text: string): boolean;
  takeAuthorities(text: string): void;
}

/**
 * A processor reached over HTTP; `docs/reference/processor.md` is its contract. Only a whole reply that says so is an outcome; everything
 * else is unknown, and nothing is ever sent twice here.
 *
 * The deadline is `timeoutMs` from the call, and the monotonic clock is asked again right before the first byte, so a process that was
 * stopped between the lease check and the send does not send. Two cases remain: a stop within those last instructions, and bytes that wait
 * in a socket or on the way. Such a charge arrives late, under the same `Idempotency-Key` as the one that a takeover sent meanwhile, and
 * the processor's own deduplication makes them one.
 *
 * `alarm` is called for answers that only a person can repair (a refused password, a path that is not there, a reply about another charge or
 * refund, an action that breaks the contract).
 * `sourceNotRead` is called once, when an adapter settles a charge that names its payer, and does not say that it reads the source.
 */
export function createHttpProcessor(settings: {
  url: string;
  /** The certificates (PEM) of the authorities that the server is trusted by. Those that Node.js brings along if it is undefined. */
  ca?: string | undefined;
  /** `PROCESSOR_ACCOUNT`. Undefined if the URL's user names the account. */
  account?: string | undefined;
  formerNames?: readonly string[] | undefined;
  timeoutMs: number;
  dedupMs: number;
  /** To the processor at once, at most. */
  connections: number;
  alarm: (cause: string) => void;
  sourceNotRead?: (() => void) | undefined;
  /** Headers of the trace under way, sent with each request; undefined if traces are off. */
  traceHeaders?: (() => Record<string, string>) | undefined;
}): RenewableProcessor {
  const {
    url,
    ca,
    account,
    formerNames = [],
    timeoutMs,
    dedupMs,
    connections,
    alarm,
    sourceNotRead,
    traceHeaders,
  } = settings;
  const first = readProcessorUrl(url, account);
  if (!first) throw new TypeError('the URL of a processor must have passed readProcessorUrl');
  const { name, origin } = first;
  let location = first;
  const exchanges = createExchanges(origin, timeoutMs, connections, { ca });
  let isDown = false;
  let isWarned = false;
  let movesMoney: boolean | null = null;
  let contract = 0;
  let carried = NOTHING_CARRIED;

  const ask = async (asked: Asked, question: Question, subject: Subject) => {
    const reply = await exchanges.ask(addressed(location, question, traceHeaders?.()));
    isDown = !reply.complete || reply.status >= 500;
    if (reply.complete) {
      movesMoney = String(reply.headers['moves-money']).toLowerCase() !== 'no';
      contract = contractIn(reply);
    }
    const doubt = doubtIn(asked, reply, subject, carried);
    if (doubt === undefined) carried = carriedWith(carried, reply, subject);
    // After a copy of an earlier reply, each reply on that connection would be the one before.
    else exchanges.renew();
    const lookAt = whereToLook(asked, reply, doubt);
    if (lookAt !== undefined) alarm(`${doubt ?? causeOf(asked, reply)}: ${lookAt}`);
    return { reply, doubt };
  };

  return {
    traits: { name, formerNames, typicalMs: Math.min(TYPICAL_MS, timeoutMs), timeoutMs, dedupMs },

    async charge({ key, transactionId, amount, currency, order, content }) {
      const { source, description, metadata, returnUrl } = content ?? {};
      const members = { transactionId, amount, currency, order, source, description, metadata, returnUrl };
      const subject = { key, transactionId, money: { amount, currency } };
      const { reply, doubt } = await ask('a charge', chargeQuestion(key, members), subject);
      const result = chargeResultOf(reply, doubt);
      const isSettled = result.state === 'succeeded' || result.state === 'declined';
      if (source !== undefined && isSettled && !readsContent(reply) && !isWarned) {
        isWarned = true;
        sourceNotRead?.();
      }
      return result;
    },

    async lookUp(key, money, open) {
      const { reply, doubt } = await ask('a look-up', lookUpQuestion(key, open), { key, money });
      return lookUpResultOf(reply, doubt, open !== undefined);
    },

    async end({ key, transactionId, amount, currency, id }, money) {
      const question = endingQuestion(key, { transactionId, amount, currency, id });
      const { reply, doubt } = await ask('an ending', question, { key, money });
      return endResultOf(reply, doubt);
    },

    async refund({ key, transactionId, payment, chargeId, amount, currency, reason }) {
      const question = refundQuestion(key, { charge: payment, id: chargeId, transactionId, amount, currency, reason });
      const subject = { key, transactionId, money: { amount, currency }, payment };
      const { reply, doubt } = await ask('a refund', question, subject);
      return refundResultOf(reply, doubt);
    },

    async lookUpRefund(key, payment, money, open) {
      const question = refundLookUpQuestion(key, payment, open);
      const { reply, doubt } = await ask('a look-up of a refund', question, { key, money, payment });
      return refundLookUpResultOf(reply, doubt);
    },

    get contract() {
      return contract;
    },

    get isDown() {
      return isDown;
    },

    get movesMoney() {
      return movesMoney;
    },

    close: exchanges.close,

    takeUrl(text) {
      const found = readProcessorUrl(text, account);
      // Another user is another account, also if PROCESSOR_ACCOUNT names it.
      if (!found || found.name !== name || new URL(text).username !== new URL(url).username) return false;
      location = found;
      return true;
    },

    takeAuthorities: exchanges.trust,
  };
}

/** Reports the first cause, then at most one per interval; `suppressed`: how many came between and were not reported. */
export function createAlarm(
  report: (cause: string, suppressed: number) => void,
  clock: Clock,
): (cause: string) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let suppressed = 0;
  return (cause) => {
    const now = clock.monotonic();
    if (now < quietUntil) {
      suppressed += 1;
      return;
    }
    report(cause, suppressed);
    quietUntil = now + ALARM_EVERY_MS;
    suppressed = 0;
  };
}
