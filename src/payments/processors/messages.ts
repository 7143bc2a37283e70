import {
  type ChargeResult,
  CONTRACT_OF_ENDINGS,
  type EndResult,
  type LookUpResult,
  type NotSent,
  type OpenCharge,
  type RefundResult,
} from '../ports/processor.js';
import type { Metadata } from '../values/content.js';
import { readKeyHeader, UUID } from '../values/idempotency-key.js';
import { fingerprintOf, type Money, type MoneyProblem, readNamedMoney } from '../values/money.js';
import { TRANSACTION_ID } from '../values/transaction-id.js';
import { cleanReason } from './decline-reason.js';
import type { Question, Reply } from './exchange.js';
import { readPending } from './pending-reply.js';
import type { ProcessorLocation } from './processor-url.js';

/** The questions of `docs/reference/processor.md`, and what their replies mean. Only a whole reply that says so is an outcome. */
export type Asked = 'a charge' | 'a look-up' | 'an ending' | 'a refund' | 'a look-up of a refund';

/** Conflict: a charge under this key is under way. Too Early (RFC 8470): its outcome is not known yet. */
const STILL_AT_WORK = [409, 425];

const LOOK_AT_CONTRACT = 'look at PROCESSOR_URL: what answers there does not take our requests';
const LOOK_AT_DOUBT = 'look at the adapter, and at whatever stands between it and this service';
const LOOK_AT_CREDENTIALS = 'look at the user and password in PROCESSOR_URL';
const LOOK_AT_ADAPTER = 'look at the adapter: it does not keep the contract';
const LOOK_AT_CHARGE = 'look at the charge at the processor, and at its payment here';
const LOOK_AT_REFUND = 'look at the refund at the processor, and at its row here';
/** Answers that only a person can repair, and the place to look. */
const LOOK_UP_REFUSED: Readonly<Record<number, string>> = {
  400: LOOK_AT_CONTRACT,
  401: LOOK_AT_CREDENTIALS,
  403: LOOK_AT_CREDENTIALS,
  422: LOOK_AT_CONTRACT,
};
const REFUSED: Readonly<Record<Asked, Readonly<Record<number, string>>>> = {
  'a look-up': LOOK_UP_REFUSED,
  // A look-up's 404 is an answer; a charge's is not.
  'a charge': { ...LOOK_UP_REFUSED, 404: 'look at the path of PROCESSOR_URL' },
  // A charge that never came can be ended too.
  'an ending': { ...LOOK_UP_REFUSED, 404: LOOK_AT_ADAPTER },
  // An adapter that does not know refunds, or something before it that does not know their path.
  'a refund': { ...LOOK_UP_REFUSED, 404: LOOK_AT_DOUBT },
  'a look-up of a refund': LOOK_UP_REFUSED,
};
/** The status of a reply that says pending. An ending has none. */
const PENDING_STATUS: Readonly<Record<Asked, number | undefined>> = {
  'a charge': 202,
  'a look-up': 200,
  'an ending': undefined,
  'a refund': 202,
  'a look-up of a refund': 200,
};
/**
 * A gateway before the adapter may answer an ending with one of these, so such a reply does not prove that the adapter keeps another
 * contract.
 */
const NOT_FROM_ADAPTER = [401, 403, 408, 429, 500, 502, 503, 504];

/** The version of the contract: since version 2 a charge has its content, and since version 3 it can be pending, be ended, and be given back. */
const CONTRACT = CONTRACT_OF_ENDINGS;
const CONTRACT_OF_CONTENT = 2;
const CONTRACT_HEADER = 'idempay-contract';
/** The form of a processor's own name of a charge, which is kept: visible ASCII, because it is sent back in a path. */
const CHARGE_ID = /^[!-~]{1,255}$/;

/** `members`: the charge as the contract has it. */
export function chargeQuestion(
  key: string,
  members: Readonly<Record<string, string | Metadata | undefined>>,
): Question {
  return {
    method: 'POST',
    path: '/charges',
    headers: { 'idempotency-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(members),
  };
}

/** With `open`, the charge is pending or ended, and its name is sent if it is known. */
export function lookUpQuestion(key: string, open?: OpenCharge): Question {
  const query = open?.id === undefined ? '' : `?id=${encodeURIComponent(open.id)}`;
  return { method: 'GET', path: `/charges/${encodeURIComponent(key)}${query}`, headers: {} };
}

/** `members`: the ending as the contract has it. */
export function endingQuestion(key: string, members: Readonly<Record<string, string | undefined>>): Question {
  return {
    method: 'POST',
    path: `/charges/${encodeURIComponent(key)}/ending`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(members),
  };
}

/** `members`: the refund as the contract has it. */
export function refundQuestion(key: string, members: Readonly<Record<string, string | undefined>>): Question {
  return {
    method: 'POST',
    path: '/refunds',
    headers: { 'idempotency-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(members),
  };
}

/** `payment`: the key of the payment that was charged. `open`: as for `lookUpQuestion`. */
export function refundLookUpQuestion(key: string, payment: string, open?: OpenCharge): Question {
  const id = open?.id === undefined ? '' : `&id=${encodeURIComponent(open.id)}`;
  const path = `/refunds/${encodeURIComponent(key)}?charge=${encodeURIComponent(payment)}${id}`;
  return { method: 'GET', path, headers: {} };
}

/** The question as it is sent to that processor; `more`: headers besides the contract's. */
export function addressed(
  { path, authorization }: ProcessorLocation,
  question: Question,
  more: Readonly<Record<string, string>> = {},
): Question {
  return {
    ...question,
    path: `${path}${question.path}`,
    headers: {
      accept: 'application/json',
      'accept-encoding': 'identity',
      [CONTRACT_HEADER]: `${CONTRACT}`,
      ...(authorization && { authorization }),
      ...more,
      ...question.headers,
    },
  };
}

/** The payment, or the refund, that a question is about. If a member is omitted, the reply is not compared with it. */
export interface Subject {
  /** A reply names it as `reference`. */
  readonly key: string;
  /** Only a charge has one: after rows were lost, a look-up or an ending may find the charge of another transaction. */
  readonly transactionId?: string | undefined;
  readonly money?: Money | undefined;
  /** Only a refund has one: the key of the payment that was charged. A reply names it as `charge`. */
  readonly payment?: string | undefined;
}

/** The marks that an adapter's replies have carried: a 404 without it may come from something else on the way. */
export interface Carried {
  readonly contract: boolean;
  readonly reference: boolean;
}

export const NOTHING_CARRIED: Carried = { contract: false, reference: false };

/** `doubt` is the result of `doubtIn`. */
export function chargeResultOf(reply: Reply, doubt: string | undefined): ChargeResult | NotSent {
  return sentResultOf('a charge', reply, doubt);
}

/** `doubt`: of `doubtIn`. Only a reply that names the contract counts. */
export function refundResultOf(reply: Reply, doubt: string | undefined): RefundResult | NotSent {
  return otherContractIn('a refund', reply, doubt) ?? sentResultOf('a refund', reply, doubt);
}

function sentResultOf(asked: 'a charge' | 'a refund', reply: Reply, doubt: string | undefined): ChargeResult | NotSent {
  if (doubt !== undefined) return { state: 'unknown', cause: doubt };
  if (reply.complete) {
    const body = readJson(reply.body);
    const isSuccess = reply.status >= 200 && reply.status <= 299;
    if (isSuccess && says('succeeded', body)) return { state: 'succeeded', ...idIn(reply) };
    if (reply.status === 402 && isDecline(body)) return declineOf(body, reply);
    const waiting = pendingIn(asked, reply);
    if (waiting && !('problem' in waiting)) return { state: 'pending', ...waiting, ...idIn(reply) };
  }
  if (!reply.complete && !reply.sent) return { state: 'not sent', cause: reply.cause };
  return { state: 'unknown', cause: causeOf(asked, reply) };
}

/** `doubt` is the result of `doubtIn`. With `isOpen`, the payment is pending or ended, so only a reply that names the contract counts. */
export function lookUpResultOf(reply: Reply, doubt: string | undefined, isOpen = false): LookUpResult {
  const otherwise = isOpen ? otherContractIn('a look-up', reply, doubt) : undefined;
  return otherwise ?? foundResultOf('a look-up', reply, doubt);
}

/** `doubt`: of `doubtIn`. Only a reply that names the contract counts. */
export function refundLookUpResultOf(reply: Reply, doubt: string | undefined): LookUpResult {
  const asked = 'a look-up of a refund';
  return otherContractIn(asked, reply, doubt) ?? foundResultOf(asked, reply, doubt);
}

function foundResultOf(
  asked: 'a look-up' | 'a look-up of a refund',
  reply: Reply,
  doubt: string | undefined,
): LookUpResult {
  if (doubt !== undefined) return { state: 'unknown', cause: doubt };
  if (reply.complete && reply.status === 404) return { state: 'no record' };
  const waiting = pendingIn(asked, reply);
  if (waiting && !('problem' in waiting)) {
    return { state: 'pending', ...waiting, charged: chargedIn(reply), ...idIn(reply) };
  }
  return outcomeIn(reply) ?? { state: 'unknown', cause: causeOf(asked, reply) };
}

/** A reply that counts for nothing, because it does not name the contract. The doubt of a reply is the better reason. */
function otherContractIn(asked: Asked, reply: Reply, doubt: string | undefined) {
  if (doubt !== undefined || !reply.complete || namesEndings(reply)) return undefined;
  return { state: 'unknown', cause: otherContract(asked, reply) } as const;
}

/** `doubt` is the result of `doubtIn`. */
export function endResultOf(reply: Reply, doubt: string | undefined): EndResult {
  if (doubt !== undefined) return { state: 'unknown', cause: doubt };
  const isFromAdapter = reply.complete && !NOT_FROM_ADAPTER.includes(reply.status);
  if (reply.complete && !namesEndings(reply)) {
    return { state: isFromAdapter ? 'other contract' : 'unknown', cause: otherContract('an ending', reply) };
  }
  if (reply.complete && reply.status === 409) return { state: 'cannot be ended' };
  return outcomeIn(reply) ?? { state: 'unknown', cause: causeOf('an ending', reply) };
}

/** The outcome in a reply to a look-up or an ending. */
function outcomeIn(reply: Reply) {
  if (!reply.complete || reply.status !== 200) return undefined;
  const body = readJson(reply.body);
  if (says('succeeded', body)) return { state: 'succeeded', charged: chargedIn(reply), ...idIn(reply) } as const;
  return isDecline(body) ? declineOf(body, reply) : undefined;
}

function declineOf({ reason }: { readonly reason: string }, reply: Reply) {
  return { state: 'declined', reason: cleanReason(reason), ...idIn(reply) } as const;
}

/**
 * The members of a reply that says pending, or the rule that it breaks. Undefined if the reply does not say pending, or does not name
 * contract 3: under an earlier contract the word may mean anything.
 */
function pendingIn(asked: Asked, reply: Reply) {
  if (!reply.complete || reply.status !== PENDING_STATUS[asked]) return undefined;
  if (!namesEndings(reply) || !says('pending', readJson(reply.body))) return undefined;
  const { until, action } = membersOf(reply);
  // A refund has no payer who could follow an action. The action is passed over, because the money may be on its way back.
  return readPending(isOfRefund(asked) ? { until } : { until, action });
}

const isOfRefund = (asked: Asked): boolean => asked === 'a refund' || asked === 'a look-up of a refund';
const isLookUp = (asked: Asked): boolean => asked === 'a look-up' || asked === 'a look-up of a refund';
const nounOf = (asked: Asked): string => (isOfRefund(asked) ? 'refund' : 'charge');

/** The processor's own name of the charge, or of the refund. A name of another form could not be sent back, so it is ignored. */
function idIn(reply: Reply): OpenCharge {
  const { id } = membersOf(reply);
  return typeof id === 'string' && CHARGE_ID.test(id) ? { id } : {};
}

/**
 * Why the reply cannot be believed (rule P23): it names another charge or refund than the one that was asked about, or is a 404 that lacks what
 * `carried` says. Undefined if there is no doubt.
 */
export function doubtIn(asked: Asked, reply: Reply, subject: Subject, carried: Carried): string | undefined {
  const other = otherNameIn(reply, subject);
  if (other !== undefined) return `${answered(asked, reply)}, and names another ${nounOf(asked)}: ${other}`;
  return isLookUp(asked) ? missingFrom(asked, reply, subject, carried) : undefined;
}

/** A value that the reply names in a form of its own is not compared. */
function otherNameIn(reply: Reply, { key, transactionId, money, payment }: Subject): string | undefined {
  const otherReference = referencesIn(reply).find((named) => named !== key);
  if (otherReference !== undefined) return `its reference is ${otherReference}, not ${key}`;
  const { transactionId: id, charge } = membersOf(reply);
  const isOtherPayment =
    typeof charge === 'string' && UUID.test(charge.toLowerCase()) && charge.toLowerCase() !== payment;
  if (payment !== undefined && isOtherPayment) return `its charge is ${charge}, not ${payment}`;
  const isOurs = typeof id === 'string' && TRANSACTION_ID.test(id);
  if (isOurs && transactionId !== undefined && id.toUpperCase() !== transactionId) {
    return `its transactionId is ${id}, not ${transactionId}`;
  }
  const named = moneyIn(reply);
  if (named === undefined) return undefined;
  if ('problem' in named) return `its amount is that of no payment: ${named.problem}`;
  if (money === undefined || fingerprintOf(named) === fingerprintOf(money)) return undefined;
  return `its amount is ${fingerprintOf(named)}, not ${fingerprintOf(money)}`;
}

/** Why a 404 may come from something between here and the adapter, such as an ingress without a route. */
function missingFrom(asked: Asked, reply: Reply, { key }: Subject, carried: Carried): string | undefined {
  if (!reply.complete || reply.status !== 404) return undefined;
  const missing = [
    ...(isObject(readJson(reply.body)) ? [] : ['a body that is a JSON object']),
    ...(carried.contract && !hasContract(reply) ? ['the header Idempay-Contract, which earlier replies had'] : []),
    ...(carried.reference && !namesReference(reply, key) ? ['the reference, which earlier replies named'] : []),
  ];
  if (missing.length === 0) return undefined;
  return `${answered(asked, reply)} without ${missing.join(' and without ')}, which proves nothing`;
}

/** The marks that were carried so far, this reply included. */
export function carriedWith(carried: Carried, reply: Reply, { key }: Subject): Carried {
  return {
    contract: carried.contract || hasContract(reply),
    reference: carried.reference || namesReference(reply, key),
  };
}

const hasContract = (reply: Reply) => reply.complete && reply.headers[CONTRACT_HEADER] !== undefined;

export const namesReference = (reply: Reply, key: string): boolean => referencesIn(reply).includes(key);

/** By the member `reference` if it is a UUID, and by the header `Idempotency-Key`, in the form of our keys. */
function referencesIn(reply: Reply): readonly string[] {
  if (!reply.complete) return [];
  const { reference } = membersOf(reply);
  const inBody = typeof reference === 'string' ? [reference.toLowerCase()].filter((name) => UUID.test(name)) : [];
  const inHeader = [reply.headers['idempotency-key'] ?? []].flat().flatMap((value) => {
    const read = readKeyHeader(value);
    return read.state === 'present' ? [read.key] : [];
  });
  return [...inBody, ...inHeader];
}

function chargedIn(reply: Reply): Money | undefined {
  const named = moneyIn(reply);
  return named === undefined || 'problem' in named ? undefined : named;
}

function moneyIn(reply: Reply): Money | MoneyProblem | undefined {
  const { amount, currency } = membersOf(reply);
  return readNamedMoney(amount, currency);
}

/** The place to look for a person after this reply. Undefined for one that no person has to repair. */
export function whereToLook(asked: Asked, reply: Reply, doubt: string | undefined): string | undefined {
  if (doubt !== undefined) return LOOK_AT_DOUBT;
  if (problemIn(asked, reply) !== undefined) return LOOK_AT_ADAPTER;
  if (isReversed(reply)) return isOfRefund(asked) ? LOOK_AT_REFUND : LOOK_AT_CHARGE;
  const lookAt = REFUSED[asked][reply.status ?? 0];
  // The reply comes from another instance of the adapter, which does not know endings yet, so the payment goes on.
  const isExpected = asked === 'an ending' && lookAt !== LOOK_AT_CREDENTIALS && !namesEndings(reply);
  return isExpected ? undefined : lookAt;
}

export function causeOf(asked: Asked, reply: Reply): string {
  const said = answered(asked, reply);
  if (!reply.complete) return reply.status === undefined ? reply.cause : `${said}, but ${reply.cause}`;
  const problem = problemIn(asked, reply);
  if (problem !== undefined) return `${said}, and says that the ${nounOf(asked)} is pending, but ${problem}`;
  if (isReversed(reply)) return `${said}, and says that the ${nounOf(asked)} was reversed, which settles nothing`;
  return isStillAtWork(reply) ? `${said}: still at work` : `${said}, which settles nothing`;
}

/** The rule of the contract that a reply that says pending breaks. */
function problemIn(asked: Asked, reply: Reply): string | undefined {
  const waiting = pendingIn(asked, reply);
  return waiting && 'problem' in waiting ? waiting.problem : undefined;
}

/** Reserved for a charge or a refund that had succeeded, such as a direct debit that was returned. It is an alarm, and no outcome. */
function isReversed(reply: Reply): boolean {
  return reply.complete && namesEndings(reply) && says('reversed', readJson(reply.body));
}

function otherContract(asked: Asked, reply: Reply): string {
  const subject = isOfRefund(asked) ? 'about a refund' : 'while a charge is pending or ended';
  return `${answered(asked, reply)} without Idempay-Contract: ${CONTRACT_OF_ENDINGS}, which counts for nothing ${subject}`;
}

const answered = (asked: Asked, reply: Reply) => `the processor answered ${reply.status} to ${asked}`;

/**
 * The version of the contract that a whole reply names; 0 if it names none. If a proxy has joined two headers to a list, the lowest version
 * counts.
 */
export function contractIn(reply: Reply): number {
  if (!reply.complete) return 0;
  const versions = [reply.headers[CONTRACT_HEADER] ?? []].flat().flatMap((value) => value.split(','));
  return versions.length === 0 ? 0 : Math.min(...versions.map(versionIn));
}

const versionIn = (text: string): number => (/^\s*\d{1,9}\s*$/.test(text) ? Number(text) : 0);

/** True if the reply counts for a charge that is pending or ended, and for a refund (contract 3). */
export const namesEndings = (reply: Reply): boolean => contractIn(reply) >= CONTRACT_OF_ENDINGS;

/** True if the adapter says that it reads the content of a charge: adapters of the first contract say nothing. */
export const readsContent = (reply: Reply): boolean => contractIn(reply) >= CONTRACT_OF_CONTENT;

export function isStillAtWork(reply: Reply): boolean {
  return reply.complete && (STILL_AT_WORK.includes(reply.status) || says('processing', readJson(reply.body)));
}

/** The members of the reply's JSON object; none if it has no such body. */
export function membersOf(reply: Reply): Readonly<Record<string, unknown>> {
  const value = reply.complete ? readJson(reply.body) : undefined;
  return isObject(value) ? value : {};
}

function says(status: string, body: unknown): boolean {
  return isObject(body) && body.status === status;
}

function isDecline(body: unknown): body is { readonly reason: string } {
  return isObject(body) && body.status === 'declined' && typeof body.reason === 'string';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Undefined when it is not JSON in UTF-8: no schema takes that. */
export function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}
