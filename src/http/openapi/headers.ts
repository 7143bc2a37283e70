import type { JsonSchema } from '../../platform/json-schema.js';
import { fixedHeaders } from '../connections/fixed-headers.js';
import { ATTEMPT_STATES } from '../errors/catalogue.js';
import type { AnswerDescription, RequestHeader, ResponseHeader } from './route-description.js';

const TAG = '"9e107d9d372bb6826bd81d3542a419d6"';

/** Optional headers have no example, because the reference page would send it with every request that is tried out. */
export const REQUEST_HEADERS = {
  ifMatch: {
    name: 'If-Match',
    text: 'Only if the resource has one of these tags (RFC 9110 13.1.1), such as `"9e107d9d372bb6826bd81d3542a419d6"`, else 412.',
    required: false,
    schema: { type: 'string' },
  },
  ifNoneMatch: {
    name: 'If-None-Match',
    text: 'Only if the resource has none of these tags (RFC 9110 13.1.2). Otherwise a read is answered 304, every other method 412. The bare tag without quotes is taken too.',
    required: false,
    schema: { type: 'string' },
  },
  requestId: {
    name: 'X-Request-Id',
    text: 'Names the request in the logs of both sides. One that is not 1 to 128 of `A-Z a-z 0-9 . _ ~ : + / = -` is replaced.',
    required: false,
    schema: { type: 'string' },
  },
  traceparent: {
    name: 'traceparent',
    text: 'Continues the trace of the caller (W3C Trace Context) where the service exports traces: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.',
    required: false,
    schema: { type: 'string' },
  },
} as const satisfies Record<string, RequestHeader>;

/** Its component in `components.headers` has the name of the header. A second one of that name needs a `component` of its own. */
export function always(name: string, text: string, schema: JsonSchema, example?: string | number): ResponseHeader {
  return { name, component: name, text, required: true, schema, ...(example !== undefined && { example }) };
}

export function sometimes(header: ResponseHeader): ResponseHeader {
  return { ...header, component: `${header.component}-sometimes`, required: false };
}

/** `component` is its name in `components.headers`, and the example has `cursor`. */
export function linkToNextPage(path: string, component: string, cursor: string | number): ResponseHeader {
  return sometimes({
    ...always(
      'Link',
      'Path and query of the next page (RFC 8288); absent after the last page.',
      { type: 'string', pattern: `^<${path}\\?[!-~]+>; rel="next"$` },
      `<${path}?limit=50&cursor=${cursor}>; rel="next"`,
    ),
    component,
  });
}

const fixed = fixedHeaders(true);
const seconds = { type: 'integer', minimum: 1 };
const count = { type: 'integer', minimum: 0 };

export const NO_STORE = {
  ...always('Cache-Control', 'No cache may keep the answer.', {
    const: 'no-store',
  }),
  component: 'Cache-Control-no-store',
};
/** An answer of this moment. */
export function ofThisMoment(text: string, schema: JsonSchema, example: unknown): AnswerDescription {
  return {
    text,
    headers: [NO_STORE],
    content: { mediaType: 'application/json', schema, examples: { now: example } },
  };
}
export const REVALIDATE = {
  ...always('Cache-Control', 'A client may keep the answer and must ask each time with `If-None-Match`.', {
    const: 'private, no-cache',
  }),
  component: 'Cache-Control-revalidate',
};
export const ASK_AGAIN = {
  ...always('Cache-Control', 'A cache may keep the answer and must ask each time with `If-None-Match`.', {
    const: 'no-cache',
  }),
  component: 'Cache-Control-no-cache',
};
export const ETAG = always(
  'ETag',
  'The tag of what is shown, for `If-None-Match` and `If-Match`.',
  { type: 'string', pattern: '^"[0-9a-f]{32}"$' },
  TAG,
);
export const REPLAYED = always(
  'Idempotent-Replayed',
  'The stored result of an earlier request with the same key: nothing was done again.',
  { const: 'true' },
);

/** Headers that every answer has. */
export const COMMON_HEADERS: readonly ResponseHeader[] = [
  {
    ...always(
      'Idempay',
      "The answer is the service's own. Every answer has it; one without it may come from a gateway, or have lost the header there, and does not prove what became of the request.",
      { const: fixed.Idempay },
    ),
    // A client that is generated from the description must not fail if a gateway strips it.
    required: false,
  },
  always(
    'X-Request-Id',
    'Names the request in the logs: the `X-Request-Id` of the request, or a new one.',
    { type: 'string', pattern: '^[A-Za-z0-9._~:+/=-]{1,128}$' },
    'order-1042-attempt-1',
  ),
  always('X-Content-Type-Options', 'No browser may guess another type.', {
    const: fixed['X-Content-Type-Options'],
  }),
  sometimes(
    always('Strict-Transport-Security', 'Over TLS (RFC 6797).', {
      const: 'Strict-Transport-Security' in fixed ? fixed['Strict-Transport-Security'] : '',
    }),
  ),
];

export const DATA_POLICY = always('Content-Security-Policy', 'The answer is data: no browser may run or frame it.', {
  const: fixed['Content-Security-Policy'],
});
export const PAGE_POLICY = {
  ...always('Content-Security-Policy', 'The page sends requests to this service only, and runs no inline script.', {
    type: 'string',
  }),
  component: 'Content-Security-Policy-page',
};

/** Headers of a page that is served from memory. */
export const PAGE_HEADERS: readonly ResponseHeader[] = [ETAG, ASK_AGAIN, PAGE_POLICY];

/** With `RATE_LIMIT_PER_MINUTE` set, on every answer that counts. */
export const LIMIT_HEADERS: readonly ResponseHeader[] = [
  always('RateLimit-Limit', 'Requests a minute (`RATE_LIMIT_PER_MINUTE`).', seconds, 600),
  always('RateLimit-Remaining', 'What is left of them.', count, 599),
  always('RateLimit-Reset', 'Seconds until the current minute ends; at least 1.', count, 42),
].map(sometimes);

export const RETRY_AFTER = always('Retry-After', 'Seconds after which to repeat the request.', seconds, 2);

/** Headers that errors bring with them, by name. */
export const ERROR_HEADERS: Readonly<Record<string, ResponseHeader>> = {
  'Retry-After': RETRY_AFTER,
  'WWW-Authenticate': always(
    'WWW-Authenticate',
    'What is wrong with the credentials (RFC 6750 3).',
    { type: 'string', pattern: '^Bearer( error="[a-z_]+"(, scope="[a-z:]+")?)?$' },
    'Bearer error="invalid_token"',
  ),
  'Idempay-Key-State': always(
    'Idempay-Key-State',
    '`expired-unpaid`: it is certain, for the client that asks, that nothing was and nothing can be charged with this key; a new key is safe. `unknown`: it is not certain. Without the header, or with another value: unknown.',
    { enum: ['expired-unpaid', 'unknown'] },
    'unknown',
  ),
  'Idempay-Attempt-State': always(
    'Idempay-Attempt-State',
    'Why the attempt is not paid, or not cancelled. `previous-...`: the attempt before is not there, or is `pending`, `completed`, `cancelled` or declined `too-old`. `superseded`: it was declined, and a later attempt was made. `mismatch`: the reference is a payment of another amount or currency. A cancellation: the payment is `completed` or `declined`, `not-begun`, `cannot-be-ended` at the processor, or has an `outcome-at-processor`. `other-client`: an operator named no client, and another client has this reference.',
    { enum: ATTEMPT_STATES },
    'superseded',
  ),
  'Idempay-Settlements-From': always(
    'Idempay-Settlements-From',
    'The time to begin the feed again from (`from`), so that no settlement is missing.',
    { type: 'string', format: 'date-time' },
    '2026-11-20T13:00:00.000000Z',
  ),
  Allow: always('Allow', 'The methods of this path.', { type: 'string' }, 'GET, HEAD'),
};
