import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ChargeResult, NotSent } from '../ports/processor.js';
import type { Metadata } from '../values/content.js';
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
const LOOK_AT_CREDENTIALS = 'look at the user and password in PROCESSOR_URL';
/** Answers that only a person can repair, and where to look. */
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
  reference: string,
  members: Readonly<Record<string, string | Metadata | undefined>>,
): Question {
  return {
    method: 'POST',
    path: '/charges',
    headers: { 'idempotency-key': reference, 'content-type': 'application/json' },
    body: JSON.stringify(members),
  };
}

export function lookUpQuestion(reference: string): Question {
  return { method: 'GET', path: `/charges/${encodeURIComponent(reference)}`, headers: {} };
}

/** The question as it is sent to that processor; `more`: headers besides those of the contract. */
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

export function chargeResultOf(reply: Reply): ChargeResult | NotSent {
  if (reply.complete) {
    const body = readJson(reply.body);
    if (reply.status >= 200 && reply.status <= 299 && succeeded.Check(body)) return { state: 'succeeded' };
    if (reply.status === 402 && declined.Check(body)) return { state: 'declined', reason: cleanReason(body.reason) };
  }
  if (!reply.complete && !reply.sent) return { state: 'not sent', cause: reply.cause };
  return { state: 'unknown', cause: causeOf('a charge', reply) };
}

export function lookUpResultOf(reply: Reply): ChargeResult | { readonly state: 'no record' } {
  if (reply.complete && reply.status === 404) return { state: 'no record' };
  if (reply.complete && reply.status === 200) {
    const body = readJson(reply.body);
    if (succeeded.Check(body)) return { state: 'succeeded' };
    if (declined.Check(body)) return { state: 'declined', reason: cleanReason(body.reason) };
  }
  return { state: 'unknown', cause: causeOf('a look-up', reply) };
}

/** Where a person has to look after this reply. Undefined for one that no person has to repair. */
export function whereToLook(asked: Asked, reply: Reply): string | undefined {
  return REFUSED[asked][reply.status ?? 0];
}

export function causeOf(asked: Asked, reply: Reply): string {
  const answered = `the processor answered ${reply.status} to ${asked}`;
  if (!reply.complete) return reply.status === undefined ? reply.cause : `${answered}, but ${reply.cause}`;
  return isStillAtWork(reply) ? `${answered}: still at work` : `${answered}, which settles nothing`;
}

/** Whether the adapter says that it reads what a charge is about: those of the first contract say nothing. */
export function readsContent(reply: Reply): boolean {
  return reply.complete && Number.parseInt(String(reply.headers[CONTRACT_HEADER]), 10) >= CONTRACT;
}

export function isStillAtWork(reply: Reply): boolean {
  return reply.complete && (STILL_AT_WORK.includes(reply.status) || processing.Check(readJson(reply.body)));
}

/** Undefined when it is not JSON in UTF-8: no schema takes that. */
export function readJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}
