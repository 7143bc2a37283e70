import { isUtf8 } from 'node:buffer';
import { clipped } from '#idempay/statements/texts.js';
import type { Reply } from '../../payments/processors/exchange.js';
import { type Asked, isStillAtWork, membersOf, readJson, whereToLook } from '../../payments/processors/messages.js';

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json$/i;
const UTF_8 = /^"?utf-?8"?$/i;
/** The members by which adapters name a charge: the same in every answer about one reference. */
const NAME_OF_CHARGE = /^(?:id|(?:charge|payment|transaction)_?id)$/i;
const NAME_OF_REFERENCE = /^(?:reference|idempotency_?key)$/i;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
type WholeReply = Reply & { readonly complete: true };

/** So much of a foreign text is printed. */
const LONGEST_QUOTE = 60;

/** The names that the reply has for its charge; none if it has no JSON object. */
export function namesIn(reply: Reply): readonly (readonly [member: string, name: string])[] {
  return Object.entries(membersOf(reply)).flatMap(([member, value]) =>
    NAME_OF_CHARGE.test(member) && (typeof value === 'string' || typeof value === 'number')
      ? [[member, String(value)] as const]
      : [],
  );
}

/** The members by which the reply names the processor's own charge. The request's own values tell no two charges apart. */
export function ownNamesIn(
  reply: Reply,
  { reference, transactionId }: { readonly reference: string; readonly transactionId: string },
): readonly string[] {
  const said = [reference, transactionId];
  return namesIn(reply).flatMap(([member, name]) => (said.includes(name) ? [] : [member]));
}

/** Another reference than the one that was asked about, if the reply names one. */
export function otherReferenceIn(reply: Reply, reference: string): string | undefined {
  const named = Object.entries(membersOf(reply)).find(
    ([member, value]) =>
      NAME_OF_REFERENCE.test(member) && typeof value === 'string' && UUID.test(value) && value !== reference,
  );
  return named && String(named[1]);
}

/** The reason why a reply is no outcome, for the author of the adapter. Empty if the status alone says it. */
export function detailOf(asked: Asked, reply: Reply, doubt: string | undefined): string {
  // The doubt itself says what is wrong.
  if (!reply.complete || doubt !== undefined || isStillAtWork(reply)) return '';
  const { status } = reply;
  if (status >= 300 && status <= 399) return 'redirects are not followed, so give the address that it leads to';
  const lookAt = whereToLook(asked, reply, undefined);
  if (lookAt !== undefined) return lookAt;
  return status >= 500 ? '' : detailOfBody(asked, reply);
}

function detailOfBody(asked: Asked, reply: WholeReply): string {
  const { body } = reply;
  if (body.length === 0) return 'its body is empty';
  if (!isUtf8(body)) return 'its body is not UTF-8';
  const value = readJson(body);
  if (value === undefined) return `its body is ${quoted(mediaTypeOf(reply) || 'something')} and no JSON`;
  return detailOfState(asked, (value ?? {}) as Readonly<Record<string, unknown>>);
}

function detailOfState(asked: Asked, { status: state, reason }: Readonly<Record<string, unknown>>): string {
  const isSent = asked === 'a charge' || asked === 'a refund';
  switch (state) {
    case 'declined':
      if (typeof reason !== 'string') return 'a decline must have the text reason';
      return `a decline must have the status ${isSent ? 402 : 200}`;
    case 'succeeded':
      return `a success must have the status ${isSent ? '2xx' : 200}`;
    case 'pending':
      if (asked === 'an ending') return 'an ending is answered with an outcome, 409 or 425';
      return `a pending ${asked.endsWith('refund') ? 'refund' : 'charge'} must have the status ${isSent ? 202 : 200}, and the header Idempay-Contract: 3`;
    default:
      return 'its JSON has no status that the contract knows';
  }
}

/** The problem with the form of a reply; undefined if it is JSON in UTF-8. A reply without a body has none. */
export function formProblemOf(reply: Reply): string | undefined {
  if (!reply.complete || reply.body.length === 0) return undefined;
  const contentType = String(reply.headers['content-type'] ?? '');
  const charset = /;\s*charset\s*=\s*([^;\s]+)/i.exec(contentType)?.[1];
  if (!isUtf8(reply.body)) return 'its bytes are not UTF-8';
  if (charset !== undefined && !UTF_8.test(charset)) return `its Content-Type says the charset ${quoted(charset)}`;
  const mediaType = mediaTypeOf(reply);
  if (mediaType === '') return 'it has no Content-Type';
  if (!JSON_TYPE.test(mediaType)) return `its Content-Type is ${quoted(mediaType)}`;
  return readJson(reply.body) === undefined ? 'its body is no JSON' : undefined;
}

/** True if a refusal says what is wrong: a JSON object with a text. */
export function hasErrorBody(reply: Reply): boolean {
  return Object.entries(membersOf(reply)).some(
    ([, value]) => value !== '' && value !== null && ['string', 'object'].includes(typeof value),
  );
}

export const saysNoMoney = (reply: Reply): boolean =>
  reply.complete && String(reply.headers['moves-money']).toLowerCase() === 'no';

export const quoted = (text: string): string => `'${clipped(text, LONGEST_QUOTE)}'`;

function mediaTypeOf(reply: WholeReply): string {
  return String(reply.headers['content-type'] ?? '')
    .split(';', 1)
    .join('')
    .trim();
}
