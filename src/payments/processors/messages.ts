import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ChargeResult, LookUpResult, NotSent } from '../ports/processor.js';
import type { Metadata } from '../values/content.js';
import { readKeyHeader, UUID } from '../values/idempotency-key.js';
import { fingerprintOf, type Money, type MoneyProblem, readNamedMoney } from '../values/money.js';
import { TRANSACTION_ID } from '../values/transaction-id.js';
import { cleanReason } from './decline-reason.js';
import type { Question, Reply } from './exchange.js';
import type { ProcessorLocation } from './processor-url.js';

/** The questions of `docs/reference/processor.md`, and what their replies mean. Only a whole reply that says so is an outcome. */
export type Asked = 'a charge' | 'a look-up';

const succeeded = Compile(Type.Object({ status: Type.Literal('succeeded') }));
const declined = Compile(Type.Object({ status: Type.Literal('declined'), reason: Type.String() }));
const processing = Compile(Type.Object({ status: Type.Literal('processing') }));

/** Conflict: a charge under this key is under way. Too Early (RFC 8470): its outcome is not known yet. */
const STILL_AT_WORK = [409, 425];

const LOOK_AT_CONTRACT = 'look at PROCESSOR_URL: what answers there does not take our requests';
const LOOK_AT_DOUBT = 'look at the adapter, and at whatever stands between it and this service';
const LOOK_AT_CREDENTIALS = 'look at the user and password in PROCESSOR_URL';
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
};

/** The version of the contract: since the second one a charge says what it is about. */
const CONTRACT = 2;
const CONTRACT_HEADER = 'idempay-contract';

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

export function lookUpQuestion(key: string): Question {
  return { method: 'GET', path: `/charges/${encodeURIComponent(key)}`, headers: {} };
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

/** The payment that a question is about. If a member is omitted, the reply is not compared with it. */
export interface Subject {
  /** A reply names it as `reference`. */
  readonly key: string;
  /** Only a charge has one: after rows were lost, a look-up may find the charge of another transaction. */
  readonly transactionId?: string | undefined;
  readonly money?: Money | undefined;
}

/** The marks that an adapter's replies have carried: a 404 without it may come from something else on the way. */
export interface Carried {
  readonly contract: boolean;
  readonly reference: boolean;
}

export const NOTHING_CARRIED: Carried = { contract: false, reference: false };

/** `doubt`: of `doubtIn`. */
export function chargeResultOf(reply: Reply, doubt: string | undefined): ChargeResult | NotSent {
  if (doubt !== undefined) return { state: 'unknown', cause: doubt };
  if (reply.complete) {
    const body = readJson(reply.body);
    if (reply.status >= 200 && reply.status <= 299 && succeeded.Check(body)) return { state: 'succeeded' };
    if (reply.status === 402 && declined.Check(body)) return { state: 'declined', reason: cleanReason(body.reason) };
  }
  if (!reply.complete && !reply.sent) return { state: 'not sent', cause: reply.cause };
  return { state: 'unknown', cause: causeOf('a charge', reply) };
}

/** `doubt`: of `doubtIn`. */
export function lookUpResultOf(reply: Reply, doubt: string | undefined): LookUpResult {
  if (doubt !== undefined) return { state: 'unknown', cause: doubt };
  if (reply.complete && reply.status === 404) return { state: 'no record' };
  if (reply.complete && reply.status === 200) {
    const body = readJson(reply.body);
    if (succeeded.Check(body)) return { state: 'succeeded', charged: chargedIn(reply) };
    if (declined.Check(body)) return { state: 'declined', reason: cleanReason(body.reason) };
  }
  return { state: 'unknown', cause: causeOf('a look-up', reply) };
}

/**
 * Why the reply cannot be believed (rule P23): it names another charge than the one that was asked about, or is a 404 that lacks what
 * `carried` says. Undefined if there is no doubt.
 */
export function doubtIn(asked: Asked, reply: Reply, subject: Subject, carried: Carried): string | undefined {
  const other = otherNameIn(reply, subject);
  if (other !== undefined) return `${answered(asked, reply)}, and names another charge: ${other}`;
  return asked === 'a look-up' ? missingFrom(reply, subject, carried) : undefined;
}

/** A value that the reply names in a form of its own is not compared. */
function otherNameIn(reply: Reply, { key, transactionId, money }: Subject): string | undefined {
  const otherReference = referencesIn(reply).find((named) => named !== key);
  if (otherReference !== undefined) return `its reference is ${otherReference}, not ${key}`;
  const { transactionId: id } = membersOf(reply);
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
function missingFrom(reply: Reply, { key }: Subject, carried: Carried): string | undefined {
  if (!reply.complete || reply.status !== 404) return undefined;
  const missing = [
    ...(isObject(readJson(reply.body)) ? [] : ['a body that is a JSON object']),
    ...(carried.contract && !hasContract(reply) ? ['the header Idempay-Contract, which earlier replies had'] : []),
    ...(carried.reference && !namesReference(reply, key) ? ['the reference, which earlier replies named'] : []),
  ];
  if (missing.length === 0) return undefined;
  return `${answered('a look-up', reply)} without ${missing.join(' and without ')}, which proves nothing`;
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
  return REFUSED[asked][reply.status ?? 0];
}

export function causeOf(asked: Asked, reply: Reply): string {
  const said = answered(asked, reply);
  if (!reply.complete) return reply.status === undefined ? reply.cause : `${said}, but ${reply.cause}`;
  return isStillAtWork(reply) ? `${said}: still at work` : `${said}, which settles nothing`;
}

const answered = (asked: Asked, reply: Reply) => `the processor answered ${reply.status} to ${asked}`;

/** True if the adapter says that it reads the content of a charge: adapters of the first contract say nothing. */
export function readsContent(reply: Reply): boolean {
  return reply.complete && Number.parseInt(String(reply.headers[CONTRACT_HEADER]), 10) >= CONTRACT;
}

export function isStillAtWork(reply: Reply): boolean {
  return reply.complete && (STILL_AT_WORK.includes(reply.status) || processing.Check(readJson(reply.body)));
}

/** The members of the reply's JSON object; none if it has no such body. */
export function membersOf(reply: Reply): Readonly<Record<string, unknown>> {
  const value = reply.complete ? readJson(reply.body) : undefined;
  return isObject(value) ? value : {};
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
