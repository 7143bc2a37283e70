import { Agent, type IncomingHttpHeaders, request as nodeRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { until } from '../time/until.js';

/** The answer, with the body as it was sent: text, never re-encoded. */
export interface Answer {
  status: number;
  statusText?: string;
  headers: IncomingHttpHeaders;
  text: string;
  json<T = unknown>(): T;
}

export interface Ask {
  method?: string;
  /** The target as it is sent, in place of the URL's target: a URL cannot express all targets. */
  path?: string;
  /** Sent exactly as given: an array sends the header several times. */
  headers?: Record<string, string | string[]>;
  /** A string is sent as UTF-8; a buffer byte by byte. */
  body?: string | Buffer;
  /** For a URL with https the one that trusts its certificate. */
  agent?: Agent;
  signal?: AbortSignal;
}

/** Sooner than any server closes an idle connection: a request sent while it does is answered with a reset. */
export const IDLE_CONNECTION_MS = 1_000;

const sharedAgent = new Agent({ keepAlive: true, maxSockets: 64, timeout: IDLE_CONNECTION_MS });

/** One HTTP request without any of the corrections that a friendlier client would make. */
export function ask(url: string, { body, agent = sharedAgent, ...options }: Ask = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? tlsRequest : nodeRequest;
    const outgoing = send(url, { ...options, agent }, (incoming) => {
      buffer(incoming).then((bytes) => {
        const { statusCode: status = 0, headers } = incoming;
        const text = bytes.toString();
        resolve({ status, headers, text, json: <T>() => JSON.parse(text) as T });
      }, reject);
    });
    // Also after the answer has begun: an abort is told as such.
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** The target of the link to the next page; undefined on the last one. */
export function nextPage({ headers: { link } }: { readonly headers: Answer['headers'] }): string | undefined {
  if (link === undefined) return undefined;
  const [, next] = /^<(\/api\/[!-~]+)>; rel="next"$/.exec(`${link}`) ?? [];
  if (next === undefined) throw new Error(`a Link that leads to no next page: ${link}`);
  return next;
}

const GENERATED_WITHIN_MS = 5_000;
const JSON_TYPE = { 'Content-Type': 'application/json' };

/** A 503 is asked again, as every client does: on a slow machine a store may miss the deadline of the service. */
export async function generateKey(url: string): Promise<string> {
  const answer = await until('a key is generated', GENERATED_WITHIN_MS, async () => {
    const tried = await ask(`${url}/api/server-generated/generate-key`);
    return tried.status !== 503 && tried;
  });
  if (answer.status !== 200) throw new Error(`generate-key answered ${answer.status}: ${answer.text}`);
  return answer.json<string>();
}

/** A payment with the given key; `body` is sent as JSON text unless it is a string or a buffer already. */
export function pay(url: string, key: string, body: unknown = { amount: '100.50', currency: 'USD' }, more: Ask = {}) {
  return ask(`${url}/api/payment`, {
    ...more,
    method: 'POST',
    headers: { ...JSON_TYPE, 'Idempotency-Key': key, ...more.headers },
    body: encode(body),
  });
}

export function paymentStatus(url: string, key: string): Promise<Answer> {
  return ask(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key } });
}

export function sendJson(url: string, method: string, body: unknown, headers: Ask['headers'] = {}): Promise<Answer> {
  return ask(url, { method, headers: { ...JSON_TYPE, ...headers }, body: encode(body) });
}

/** The transaction id in either answer text of spec 2.4; undefined when the text names none. */
export const transactionIdOf = (answer: Pick<Answer, 'text'>) => /Transaction ID: (TXN\d+)"$/.exec(answer.text)?.[1];

const encode = (body: unknown) => (typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body));
