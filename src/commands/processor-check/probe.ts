import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { CHECK_REFERENCE_END } from '#idempay/statements/ids.js';
import type {
  Action,
  ChargeResult,
  EndResult,
  LookUpResult,
  NotSent,
  OpenCharge,
} from '../../payments/ports/processor.js';
import { createExchanges, type Question, type Reply } from '../../payments/processors/exchange.js';
import {
  type Asked,
  addressed,
  carriedWith,
  chargeQuestion,
  chargeResultOf,
  contractIn,
  doubtIn,
  endingQuestion,
  endResultOf,
  isStillAtWork,
  lookUpQuestion,
  lookUpResultOf,
  NOTHING_CARRIED,
  namesReference,
  refundLookUpQuestion,
  refundLookUpResultOf,
  refundQuestion,
  refundResultOf,
  type Subject,
} from '../../payments/processors/messages.js';
import type { ProcessorLocation } from '../../payments/processors/processor-url.js';
import type { Metadata } from '../../payments/values/content.js';
import { generateIdempotencyKey } from '../../payments/values/idempotency-key.js';
import type { Money } from '../../payments/values/money.js';
import { createTransactionIds } from '../../payments/values/transaction-id.js';
import { systemClock } from '../../platform/clock.js';
import { detailOf, namesIn, otherReferenceIn, ownNamesIn, quoted } from './replies.js';

/** The most charges that are sent at once. */
export const AT_ONCE = 20;

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** Pauses double, so this one comes once: after a second and a half of asking. */
const TOLD_AT_PAUSE_MS = 16 * FIRST_PAUSE_MS;

export interface ProbeSettings {
  readonly location: ProcessorLocation;
  /** As `PROCESSOR_CA_FILE` has it. */
  readonly ca?: string | undefined;
  readonly money: Money;
  readonly source?: string | undefined;
  readonly decliningSource?: string | undefined;
  /** The source of a payer who must confirm. If omitted, `source` is tried. */
  readonly confirmingSource?: string | undefined;
  /** Kills the adapter and starts it again. Resolves with the problem if that failed. */
  readonly restart?: (() => Promise<string | undefined>) | undefined;
  /** Plays the payer of a pending charge, who was given this action. Resolves with the problem if that failed. */
  readonly payer?:
    | ((does: 'confirm' | 'refuse', action: Action | undefined) => Promise<string | undefined>)
    | undefined;
  /** For one call, as the service's `PROCESSOR_TIMEOUT_MS`. */
  readonly timeoutMs: number;
  /** For look-ups that say that a charge is still at work. */
  readonly deadlineMs: number;
  /** A connection is cut after half of the time that a charge took, and not earlier than this. */
  readonly leastCutMs: number;
  /** A charge that is said to have no record is watched for twice the time that one took, and not shorter than this. */
  readonly leastWatchMs: number;
  /** Awaited before a reference is charged for the first time. */
  readonly announce: (payment: CheckedPayment) => Promise<unknown>;
  /** Awaited before a refund is sent for the first time. */
  readonly announceRefund?: ((refund: CheckedRefund) => Promise<unknown>) | undefined;
  /** Called once if a look-up is repeated for long. */
  readonly waiting?: ((asked: CheckedPayment | CheckedRefund, limitMs: number) => Promise<unknown>) | undefined;
}

/** The content of a charge besides its source, as the service sends it since the second contract. */
export interface CheckedContent {
  readonly order: string;
  readonly description: string;
  readonly metadata: Metadata;
}

/** One reference, and what is known of it. */
export interface CheckedPayment extends Money {
  readonly reference: string;
  readonly transactionId: string;
  readonly source: string | undefined;
  readonly content: CheckedContent | undefined;
  /** If there is one, a payer is present. */
  readonly returnUrl: string | undefined;
  /** The check that charges it. */
  readonly purpose: string;
  state: 'not sent' | 'unknown' | 'pending' | 'charged' | 'declined';
  /** True if a reply said pending, or its ending was asked for: from then on only replies that name contract 3 count. */
  isOpen: boolean;
  /** The processor's own name of the charge and the action of its payer, each from the last reply that had one. */
  id: string | undefined;
  action: Action | undefined;
  /** Amounts that were answered as succeeded. */
  readonly amounts: Set<string>;
  /** By member, as the first answers named the charge. */
  readonly names: Map<string, string>;
  /** The members by which every answer that said succeeded named the processor's own charge; undefined before the first one. */
  namedBy: readonly string[] | undefined;
}

/** One refund, and what is known of it. `Money` is the part of the charge that it gives back. */
export interface CheckedRefund extends Money {
  readonly reference: string;
  readonly transactionId: string;
  readonly payment: CheckedPayment;
  /** The check that makes it. */
  readonly purpose: string;
  state: 'not sent' | 'unknown' | 'pending' | 'given back' | 'declined' | 'not made';
  /** The processor's own name of it, as the first reply had it that had one. */
  id: string | undefined;
  /** True if the last look-up of it told the amount. */
  isAmountTold: boolean;
}

/** Its replies cannot show whether it was charged more than once, because there is no name that all of them have. */
export const isNameless = ({ namedBy }: CheckedPayment): boolean => namedBy?.length === 0;

export interface Answer {
  readonly result: ChargeResult | LookUpResult | EndResult | NotSent;
  readonly reply: Reply;
  /** The reason why the reply is no outcome, if there is one. */
  readonly detail: string;
  /** How it contradicts an earlier answer about the same reference, or the question. */
  readonly contradiction: string | undefined;
}

export type Probe = ReturnType<typeof openProbe>;

/** Speaks to a processor as the service does, and remembers what it charged and what was answered. Nothing here rejects. */
export function openProbe(settings: ProbeSettings) {
  const { location, money, timeoutMs, deadlineMs, announce } = settings;
  const exchanges = createExchanges(location.origin, timeoutMs, AT_ONCE, { ca: settings.ca });
  const newTransactionId = createTransactionIds(Date.now);
  const payments: CheckedPayment[] = [];
  const refunds: CheckedRefund[] = [];
  const announcements = new Map<CheckedPayment, Promise<unknown>>();
  const replies: { readonly asked: string; readonly reply: Reply }[] = [];
  const namings = new Map<string, boolean>();
  const contracts = new Map<string, number>();
  let chargeMs = 0;
  let mostContract = 0;
  let carried = NOTHING_CARRIED;

  /** As the service judges it, with what the earlier replies of this run carried. */
  function doubtOf(asked: Asked, reply: Reply, subject: Subject): string | undefined {
    const doubt = doubtIn(asked, reply, subject, carried);
    if (doubt === undefined) carried = carriedWith(carried, reply, subject);
    if (reply.complete) {
      const kind = `${asked} (${reply.status})`;
      namings.set(kind, (namings.get(kind) ?? true) && namesReference(reply, subject.key));
      const contract = contractIn(reply);
      if (reply.status < 500) contracts.set(kind, Math.min(contracts.get(kind) ?? contract, contract));
      mostContract = Math.max(mostContract, contract);
    }
    return doubt;
  }

  async function ask(asked: string, question: Question): Promise<Reply> {
    const reply = await exchanges.ask(addressed(location, question));
    replies.push({ asked, reply });
    return reply;
  }

  function newPayment(
    purpose: string,
    source = settings.source,
    content?: CheckedContent,
    returnUrl?: string,
  ): CheckedPayment {
    return {
      ...money,
      reference: newReference(),
      transactionId: newTransactionId(),
      source,
      content,
      returnUrl,
      purpose,
      state: 'not sent',
      isOpen: false,
      id: undefined,
      action: undefined,
      amounts: new Set(),
      names: new Map(),
      namedBy: undefined,
    };
  }

  async function announced(payment: CheckedPayment): Promise<void> {
    if (!announcements.has(payment)) {
      payments.push(payment);
      payment.state = 'unknown';
      announcements.set(payment, announce(payment));
    }
    await announcements.get(payment);
  }

  function questionFor(payment: CheckedPayment): Question {
    const { reference, transactionId, amount, currency, source, content, returnUrl } = payment;
    return chargeQuestion(reference, { transactionId, amount, currency, source, ...content, returnUrl });
  }

  async function charge(
    payment: CheckedPayment,
    other: Partial<Money & Pick<CheckedPayment, 'content'>> = {},
  ): Promise<Answer> {
    await announced(payment);
    const startedAt = systemClock.monotonic();
    const sent = { ...payment, ...other };
    const reply = await ask('a charge', questionFor(sent));
    if (chargeMs === 0) chargeMs = systemClock.monotonic() - startedAt;
    const { reference: key, transactionId, amount, currency } = sent;
    const doubt = doubtOf('a charge', reply, { key, transactionId, money: { amount, currency } });
    const answer = { result: chargeResultOf(reply, doubt), reply, detail: detailOf('a charge', reply, doubt) };
    if (answer.result.state === 'succeeded') payment.amounts.add(other.amount ?? payment.amount);
    return { ...answer, contradiction: noted(payment, answer) };
  }

  async function lookUp(payment: CheckedPayment): Promise<Answer> {
    const { reference: key, isOpen, id } = payment;
    const reply = await ask('a look-up', lookUpQuestion(key, isOpen ? { id } : undefined));
    const doubt = doubtOf('a look-up', reply, { key, money: chargedMoneyOf(payment) });
    const answer = { result: lookUpResultOf(reply, doubt, isOpen), reply, detail: detailOf('a look-up', reply, doubt) };
    return { ...answer, contradiction: noted(payment, answer) };
  }

  async function endOnce(payment: CheckedPayment): Promise<Answer> {
    await announced(payment);
    payment.isOpen = true;
    const { reference: key, transactionId, amount, currency, id } = payment;
    const reply = await ask('an ending', endingQuestion(key, { transactionId, amount, currency, id }));
    const doubt = doubtOf('an ending', reply, { key, money: chargedMoneyOf(payment) });
    const answer = { result: endResultOf(reply, doubt), reply, detail: detailOf('an ending', reply, doubt) };
    return { ...answer, contradiction: noted(payment, answer) };
  }

  function newRefund(purpose: string, payment: CheckedPayment, amount: string): CheckedRefund {
    const { currency } = payment;
    const [reference, transactionId] = [newRefundReference(), newTransactionId()];
    const unsent = { state: 'not sent', id: undefined, isAmountTold: false } as const;
    return { reference, transactionId, payment, amount, currency, purpose, ...unsent };
  }

  async function refundAnnounced(refund: CheckedRefund): Promise<void> {
    if (refund.state !== 'not sent') return;
    refunds.push(refund);
    refund.state = 'unknown';
    await settings.announceRefund?.(refund);
  }

  function questionForRefund({ reference, transactionId, payment, amount, currency }: CheckedRefund): Question {
    const { reference: charge, id } = payment;
    return refundQuestion(reference, { charge, id, transactionId, amount, currency, reason: 'Check of the contract' });
  }

  async function refundOnce(refund: CheckedRefund): Promise<Answer> {
    await refundAnnounced(refund);
    const { reference: key, transactionId, amount, currency, payment } = refund;
    const reply = await ask('a refund', questionForRefund(refund));
    const subject = { key, transactionId, money: { amount, currency }, payment: payment.reference };
    const doubt = doubtOf('a refund', reply, subject);
    const answer = { result: refundResultOf(reply, doubt), reply, detail: detailOf('a refund', reply, doubt) };
    return { ...answer, contradiction: notedOfRefund(refund, answer) };
  }

  async function lookUpRefund(refund: CheckedRefund): Promise<Answer> {
    const { reference: key, amount, currency, payment, state, id } = refund;
    const open = state === 'pending' ? { id } : undefined;
    const reply = await ask('a look-up of a refund', refundLookUpQuestion(key, payment.reference, open));
    const subject = { key, money: { amount, currency }, payment: payment.reference };
    const doubt = doubtOf('a look-up of a refund', reply, subject);
    const detail = detailOf('a look-up of a refund', reply, doubt);
    const answer = { result: refundLookUpResultOf(reply, doubt), reply, detail };
    refund.isAmountTold = 'charged' in answer.result && answer.result.charged !== undefined;
    return { ...answer, contradiction: notedOfRefund(refund, answer) };
  }

  const lookUpUntil = (payment: CheckedPayment, limitMs: number, isEnough: (answer: Answer) => boolean) =>
    askUntil(() => lookUp(payment), payment, limitMs, isEnough);

  /** Asks until `isEnough` or the time is over, with growing pauses. */
  async function askUntil(
    askOnce: () => Promise<Answer>,
    asked: CheckedPayment | CheckedRefund,
    limitMs: number,
    isEnough: (answer: Answer) => boolean,
  ): Promise<Answer> {
    const dueAt = systemClock.monotonic() + limitMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      const answer = await askOnce();
      if (isEnough(answer) || systemClock.monotonic() + pauseMs > dueAt) return answer;
      if (pauseMs === TOLD_AT_PAUSE_MS) await settings.waiting?.(asked, limitMs);
      await delay(pauseMs);
    }
  }

  return {
    settings,
    /** The payments that were sent, in their order. */
    payments: payments as readonly CheckedPayment[],
    replies: replies as readonly { readonly asked: string; readonly reply: Reply }[],
    /** Kinds of replies, such as `a look-up (404)`, and whether each reply of the kind named the reference that was asked about. */
    namings: namings as ReadonlyMap<string, boolean>,
    /** Kinds of replies, and the lowest contract that a reply of the kind named. Replies of a server's fault are left out. */
    contracts: contracts as ReadonlyMap<string, number>,
    /** The highest contract that a reply named. */
    get contract() {
      return mostContract;
    },
    newPayment,
    charge,
    ask,
    /** A payment whose charge is sent by `ask`. */
    announced,
    /** The answer of the look-up, when the charge is no longer at work or the deadline is over. */
    outcomeOf: (payment: CheckedPayment) => lookUpUntil(payment, deadlineMs, ({ reply }) => !isStillAtWork(reply)),
    /** The same for a charge that has no record: it may get one. */
    watch: (payment: CheckedPayment) =>
      lookUpUntil(
        payment,
        Math.max(settings.leastWatchMs, 2 * chargeMs),
        ({ result }) => result.state === 'succeeded' || result.state === 'declined',
      ),
    /** Asks for the ending until its result is known, or the deadline is over. */
    end: (payment: CheckedPayment) =>
      askUntil(
        () => endOnce(payment),
        payment,
        deadlineMs,
        ({ result, reply }) => result.state !== 'unknown' || !isStillAtWork(reply),
      ),
    /** The answer of the look-up when the charge waits no longer, or the time is over. */
    decided: (payment: CheckedPayment, limitMs = deadlineMs) =>
      lookUpUntil(payment, limitMs, ({ result, reply }) => result.state !== 'pending' && !isStillAtWork(reply)),
    /** Looks up a charge that was ended or declined for a while, because it must stay so. */
    watchEnded: (payment: CheckedPayment) =>
      lookUpUntil(payment, Math.max(settings.leastWatchMs, 2 * chargeMs), ({ result }) => result.state === 'succeeded'),
    /** The answer of the look-up as soon as the adapter is there again. */
    reached: (payment: CheckedPayment) => lookUpUntil(payment, deadlineMs, isFromRunningAdapter),
    /** Cuts the connection before the reply, or with its first byte. */
    chargeAndCut(payment: CheckedPayment): Promise<LostReply> {
      const afterMs = Math.min(Math.max(settings.leastCutMs, chargeMs / 2), timeoutMs);
      return lose(payment, afterMs, true);
    },
    /** Lets the time limit of a call pass, without taking the reply. */
    chargeAndWait(payment: CheckedPayment): Promise<LostReply> {
      const afterMs = Math.min(Math.max(settings.leastWatchMs, 2 * chargeMs), timeoutMs);
      return lose(payment, afterMs, false);
    },
    newRefund,
    /** The refunds that were sent, in their order. */
    refunds: refunds as readonly CheckedRefund[],
    refund: refundOnce,
    /** The answer of the look-up, when the refund is no longer at work or the deadline is over. */
    refundOutcome: (refund: CheckedRefund) =>
      askUntil(
        () => lookUpRefund(refund),
        refund,
        deadlineMs,
        ({ reply }) => !isStillAtWork(reply),
      ),
    /** The same as soon as the adapter is there again. */
    refundReached: (refund: CheckedRefund) =>
      askUntil(() => lookUpRefund(refund), refund, deadlineMs, isFromRunningAdapter),
    /** Does with a refund what `chargeAndWait` does with a charge. */
    async refundAndWait(refund: CheckedRefund): Promise<LostReply> {
      await refundAnnounced(refund);
      const afterMs = Math.min(Math.max(settings.leastWatchMs, 2 * chargeMs), timeoutMs);
      const question = addressed(location, questionForRefund(refund));
      return sendAndLoseReply(location.origin, question, { afterMs, isCutAtReply: false, timeoutMs });
    },
    /** How long the first charge took. */
    get chargeMs() {
      return chargeMs;
    },
    close: () => exchanges.close(),
  };

  async function lose(payment: CheckedPayment, afterMs: number, isCutAtReply: boolean): Promise<LostReply> {
    await announced(payment);
    const question = addressed(location, questionFor(payment));
    return sendAndLoseReply(location.origin, question, { afterMs, isCutAtReply, timeoutMs });
  }
}

const isFromRunningAdapter = ({ reply }: Answer): boolean =>
  reply.complete && reply.status < 500 && !isStillAtWork(reply);

/** Either of two amounts at once may have won: the only one that was answered as succeeded counts. */
function chargedMoneyOf({ amount, currency, amounts }: CheckedPayment): Money {
  const [charged = amount, ...others] = amounts;
  return { amount: others.length === 0 ? charged : amount, currency };
}

/** A key as the service generates it, with an end that shows whose it is. 26 random bits stay for each millisecond. */
function newReference(): string {
  return generateIdempotencyKey().slice(0, -CHECK_REFERENCE_END.length) + CHECK_REFERENCE_END;
}

/** A reference in the form of the keys that the service computes for refunds: the first digit is `f`, and the version 8. */
function newRefundReference(): string {
  const reference = newReference();
  return `f${reference.slice(1, 14)}8${reference.slice(15)}`;
}

/** Remembers what the answer says of the refund. Returns how it contradicts what was known. */
function notedOfRefund(refund: CheckedRefund, { result }: Pick<Answer, 'result'>): string | undefined {
  const { id = refund.id }: OpenCharge = 'id' in result ? result : {};
  if (refund.id !== undefined && id !== refund.id) return `its id is ${quoted(`${id}`)}, and was ${quoted(refund.id)}`;
  refund.id = id;
  if (result.state === 'succeeded') refund.state = 'given back';
  if (result.state === 'pending' || result.state === 'declined') refund.state = result.state;
  return undefined;
}

/** Remembers what the answer says of the payment. Returns how it contradicts what was known. */
function noted(payment: CheckedPayment, { result, reply }: Pick<Answer, 'result' | 'reply'>): string | undefined {
  const { reference, names } = payment;
  if ('id' in result && result.id !== undefined) payment.id = result.id;
  if (result.state === 'pending') {
    payment.isOpen = true;
    payment.action = result.action;
    if (payment.state === 'unknown') payment.state = 'pending';
  }
  if (result.state === 'declined' && payment.state !== 'charged') payment.state = 'declined';
  if (result.state !== 'succeeded') return undefined;
  if (payment.state !== 'not sent') payment.state = 'charged';
  const members = ownNamesIn(reply, payment);
  payment.namedBy = (payment.namedBy ?? members).filter((member) => members.includes(member));
  const other = otherReferenceIn(reply, reference);
  if (other !== undefined) return `it has the reference ${other}`;
  for (const [member, name] of namesIn(reply)) {
    const before = names.get(member);
    if (before !== undefined && before !== name) return `its ${member} is ${quoted(name)}, and was ${quoted(before)}`;
    names.set(member, name);
  }
  return undefined;
}

export interface Loss {
  /** The time from the end of the request until the connection is closed. */
  readonly afterMs: number;
  /** It is closed earlier, with the first byte of a reply. Else the reply is discarded until the time is over. */
  readonly isCutAtReply: boolean;
  /** For connecting and sending. */
  readonly timeoutMs: number;
}

export interface LostReply {
  /** The whole request was handed to the connection. */
  readonly isSent: boolean;
  /** The head of a reply had come when the connection was closed. */
  readonly isAnswered: boolean;
}

/** Sends a question on a connection of its own, and closes it without taking the reply. Never rejects, and always ends. */
export function sendAndLoseReply(origin: string, question: Question, loss: Loss): Promise<LostReply> {
  const { method, path, headers, body } = question;
  const send = origin.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    let [isSent, isAnswered] = [false, false];
    const request = send(`${origin}${path}`, { method, headers, agent: false });
    const end = () => {
      clearTimeout(timer);
      request.destroy();
      resolve({ isSent, isAnswered });
    };
    let timer = setTimeout(end, loss.timeoutMs);
    request.on('finish', () => {
      isSent = true;
      clearTimeout(timer);
      timer = setTimeout(end, loss.afterMs);
    });
    request.on('response', (response) => {
      isAnswered = true;
      response.on('error', () => {});
      if (loss.isCutAtReply) end();
      else response.resume();
    });
    request.on('upgrade', end);
    request.on('error', end);
    request.end(body);
  });
}
