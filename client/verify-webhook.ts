import { InvalidWebhookError } from './errors.js';
import { isPayment } from './http/forms.js';
import { isObject, parsed } from './http/proof.js';
import type { Payment } from './representations.js';

/** A payment or a refund has ended. */
export interface WebhookEvent {
  /** The same in every delivery of this event. Keep it, and do the work of each id once. */
  readonly id: string;
  /** A newer service may send other types too: answer 2xx, and do nothing. */
  readonly type:
    | 'payment.completed'
    | 'payment.declined'
    | 'payment.cancelled'
    | 'refund.completed'
    | 'refund.declined';
  /** When the outcome was written, as RFC 3339 has it. */
  readonly timestamp: string;
  /** Its record, as `payments.get` returns it. */
  readonly data: Payment;
}

/** The `Headers` of fetch, or the headers of a request of Node.js. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Room for clocks that differ. Each delivery is signed when it is sent, so a message that comes again after hours is not old. */
const TOLERANCE_SECONDS = 300;
/** 24 to 64 bytes in base64. */
const SECRET = /^whsec_([A-Za-z0-9+/]{32,86}={0,2})$/;

/**
 * The event of a request that Idempay sent to an endpoint of its WEBHOOKS_FILE, in the format of Standard Webhooks 1.0. `body`: the text
 * or the bytes that arrived, and never parsed JSON. `secrets`: those of the endpoint; during a change the old one and the new one, of which
 * one is enough. Rejects with an `InvalidWebhookError` if the message was not signed with one of them within the last five minutes.
 */
export async function verifyWebhook(
  headers: WebhookHeaders,
  body: string | Uint8Array,
  secrets: readonly string[],
): Promise<WebhookEvent> {
  const keys = keysOf(secrets);
  const bytes = bytesOf(body);
  const id = soleHeader(headers, 'webhook-id');
  const timestamp = soleHeader(headers, 'webhook-timestamp');
  // Only digits are allowed, so that the signed text has one reading, although an id may have a full stop.
  if (!/^\d+$/.test(timestamp))
    throw new InvalidWebhookError("'webhook-timestamp' must be a number of seconds.", 'headers');
  // A proxy may write two signatures as two headers, which are then joined by a comma.
  const signatures = someHeader(headers, 'webhook-signature').join(' ').split(/,?\s+/);
  const content = signedContent(`${id}.${timestamp}.`, bytes);
  const expected = await Promise.all(keys.map((key) => signatureOf(key, content)));
  if (!expected.some((each) => signatures.some((signature) => isSame(signature, each)))) {
    throw new InvalidWebhookError(
      'The message is signed with none of the secrets. Give those that its endpoint has in WEBHOOKS_FILE, and the body as it arrived: JSON that is parsed and written again is another text.',
      'signature',
    );
  }
  refuseOtherTimes(Number(timestamp));
  return eventIn(id, new TextDecoder().decode(bytes));
}

function keysOf(secrets: readonly string[]): readonly Uint8Array<ArrayBuffer>[] {
  // An undefined setting must not become a secret that everybody knows.
  if (!Array.isArray(secrets) || secrets.length === 0)
    throw new InvalidWebhookError("'secrets' must be a list with at least one secret.", 'secrets');
  return secrets.map((secret, at) => {
    try {
      const [, text = ''] = SECRET.exec(secret) ?? [];
      if (text !== '') return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    } catch {
      // It is not base64.
    }
    throw new InvalidWebhookError(
      `'secrets[${at}]' must be a secret as WEBHOOKS_FILE has it: whsec_, then 24 to 64 bytes in base64, without spaces or line ends.`,
      'secrets',
    );
  });
}

function bytesOf(body: string | Uint8Array): Uint8Array {
  // `instanceof` is false for bytes that another realm made, such as a test environment.
  const isBytes = ArrayBuffer.isView(body);
  if (!isBytes && typeof body !== 'string') {
    throw new InvalidWebhookError(
      "'body' must be the text or the bytes that arrived. If it was parsed already, read it raw on this path: JSON that is written again is another text.",
      'body',
    );
  }
  const bytes = isBytes
    ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
    : new TextEncoder().encode(body);
  if (bytes.length === 0)
    throw new InvalidWebhookError("'body' is empty. If something has read it before, give what it read.", 'body');
  return bytes;
}

function soleHeader(headers: WebhookHeaders, name: string): string {
  const [value = '', ...more] = someHeader(headers, name);
  if (more.length > 0) throw new InvalidWebhookError(`'${name}' was sent more than once.`, 'headers');
  return value;
}

function someHeader(headers: WebhookHeaders, name: string): readonly string[] {
  const values =
    typeof headers.get === 'function'
      ? [headers.get(name)]
      : Object.entries(headers).flatMap(([each, value]) => (each.toLowerCase() === name ? value : []));
  const found = values.filter((value) => typeof value === 'string' && value !== '') as string[];
  if (found.length > 0) return found;
  throw new InvalidWebhookError(`'${name}' is missing. Give the headers of the request as they arrived.`, 'headers');
}

function signedContent(head: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const begin = new TextEncoder().encode(head);
  const content = new Uint8Array(begin.length + body.length);
  content.set(begin);
  content.set(body, begin.length);
  return content;
}

async function signatureOf(secret: Uint8Array<ArrayBuffer>, content: Uint8Array<ArrayBuffer>): Promise<string> {
  const key = await crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const signature = new Uint8Array(await crypto.subtle.sign('HMAC', key, content));
  return `v1,${btoa(String.fromCharCode(...signature))}`;
}

/** The comparison takes constant time, so that a forger does not learn from it how much of a signature is right. */
function isSame(given: string, expected: string): boolean {
  let difference = given.length ^ expected.length;
  for (let at = 0; at < expected.length; at += 1) difference |= given.charCodeAt(at) ^ expected.charCodeAt(at);
  return difference === 0;
}

/** The time is judged after the signature, because the time of a message that is not signed proves nothing. */
function refuseOtherTimes(signedAt: number): void {
  const seconds = Math.floor(Date.now() / 1_000) - signedAt;
  if (Math.abs(seconds) <= TOLERANCE_SECONDS) return;
  const [why, when] = seconds > 0 ? (['too-old', 'ago'] as const) : (['too-new', 'ahead'] as const);
  throw new InvalidWebhookError(
    `The message was signed ${Math.abs(seconds)} s ${when}, which is more than ${TOLERANCE_SECONDS} s. If it was sent just now, correct the clock of this machine or of the service.`,
    why,
  );
}

function eventIn(id: string, text: string): WebhookEvent {
  const { type, timestamp, data } = objectIn(text);
  if (typeof type !== 'string' || typeof timestamp !== 'string' || !isPayment(data))
    throw new InvalidWebhookError(
      'The message is signed, but it is no event of Idempay. Is the secret used by another sender?',
      'event',
    );
  return Object.freeze({ id, type: type as WebhookEvent['type'], timestamp, data });
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  const value = parsed(text);
  return isObject(value) ? value : {};
}
