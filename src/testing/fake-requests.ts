import { errorBody, type PublicError, publicErrors } from '../http/errors/public-errors.js';
import { type JsonBody, type RowsMember, readJsonBody } from '../http/requests/json-body.js';
import type { FakeAnswer, FakeRequest } from './fake-exchange.js';

const JSON_TYPE = 'application/json; charset=utf-8';
const JSON_MEDIA_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

export function answerJson(body: string, headers: Record<string, string> = {}, status = 200): FakeAnswer {
  return { status, headers: { 'content-type': JSON_TYPE, 'cache-control': 'no-store', ...headers }, body };
}

export function answerNothing(status: 204 | 304, headers: Record<string, string> = {}): FakeAnswer {
  return { status, headers, body: '' };
}

export function answerError({ status, message, headers }: PublicError): FakeAnswer {
  const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  return answerJson(JSON.stringify(errorBody(status, message)), given, status);
}

/** The body by the service's own reader; undefined where there is none. Throws a PublicError. */
export function bodyOf({ body, headers }: FakeRequest, rows?: RowsMember): JsonBody | undefined {
  if (body === '') return undefined;
  if (!JSON_MEDIA_TYPE.test(headers['content-type'] ?? '')) throw publicErrors.unsupportedMediaType();
  return readJsonBody(Buffer.from(body), rows);
}

export function requiredBodyOf(request: FakeRequest, rows?: RowsMember): JsonBody {
  const body = bodyOf(request, rows);
  if (body === undefined) throw publicErrors.emptyBody();
  return body;
}
