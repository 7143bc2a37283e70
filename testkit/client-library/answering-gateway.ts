import { STATUS_CODES } from 'node:http';
import type { Fetch } from '@idempay/client';

/** An answer that a gateway writes itself. */
export interface OwnAnswer {
  readonly status: number;
  readonly body: 'a page' | 'JSON with the members of the service' | 'JSON with other members';
  /** True if the service sees the request, and carries it out, before the gateway answers. */
  readonly when: 'before' | 'after';
  /** `Idempay: 1`, with the other headers of an answer that the gateway replaces. */
  readonly header: 'kept' | 'stripped';
  /** To the first request that it meets, or to all of them. */
  readonly lasts: 'once' | 'always';
}

/**
 * Each status that RFC 9110, the client or the service's catalogue of errors names, and one of each class that none names. 1xx are no
 * answers, and `fetch` hides them.
 */
export const STATUSES: readonly number[] = [
  ...[200, 201, 202, 203, 204, 205, 206, 299],
  ...[300, 301, 302, 303, 304, 305, 306, 307, 308, 399],
  ...[400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418],
  ...[421, 422, 425, 426, 428, 429, 431, 499],
  ...[500, 501, 502, 503, 504, 505, 599],
];

export const OWN_ANSWERS: readonly OwnAnswer[] = STATUSES.flatMap((status) =>
  (['a page', 'JSON with the members of the service', 'JSON with other members'] as const).flatMap((body) =>
    (['before', 'after'] as const).flatMap((when) =>
      (['kept', 'stripped'] as const).flatMap((header) =>
        (['once', 'always'] as const).map((lasts) => ({ status, body, when, header, lasts })),
      ),
    ),
  ),
);

export const nameOf = ({ status, body, when, header, lasts }: OwnAnswer) =>
  `${status} as ${body}, ${when} the service, header ${header}, ${lasts}`;

/** An answer with one of these statuses has no body, from the service and from a gateway alike. */
const BODILESS = new Set([204, 205, 304]);

export interface Gateway {
  readonly fetch: Fetch;
  /** The requests that the gateway met, and how many of them the service saw. */
  readonly met: RequestInit[];
  forwarded(): number;
}

/** A gateway in front of `service` that answers by itself what `meets` says; it passes everything else on. */
export function answeringGateway(service: Fetch, own: OwnAnswer, meets: (init: RequestInit) => boolean): Gateway {
  const met: RequestInit[] = [];
  let forwarded = 0;

  async function answer(url: string, init: RequestInit): Promise<Response> {
    if (!meets(init)) return service(url, init);
    met.push(init);
    const isPassed = own.lasts === 'once' && met.length > 1;
    if (!isPassed && !(own.when === 'after' && met.length === 1)) return written(own);
    forwarded += 1;
    const response = await service(url, init);
    if (isPassed) return response;
    await response.body?.cancel();
    return written(own);
  }

  return {
    fetch: (url, init = {}) => answer(url, init),
    met,
    forwarded: () => forwarded,
  };
}

function written(own: OwnAnswer): Response {
  const { status, headers, text } = answerOf(own);
  return new Response(text || null, { status, headers });
}

/** The answer that the gateway writes. */
export function answerOf({ status, body, header }: Pick<OwnAnswer, 'status' | 'body' | 'header'>) {
  const headers: Record<string, string> = {
    ...(header === 'kept' && { idempay: '1', 'x-request-id': 'request' }),
    ...(status >= 300 && status < 400 && { location: 'http://other.test/' }),
    'content-type': body === 'a page' ? 'text/html' : 'application/json; charset=utf-8',
  };
  return { status, headers, text: BODILESS.has(status) ? '' : textOf(body, status) };
}

function textOf(body: OwnAnswer['body'], status: number): string {
  switch (body) {
    case 'a page':
      return `<html><body><h1>${status}</h1></body></html>`;
    case 'JSON with the members of the service':
      return JSON.stringify({ status, error: STATUS_CODES[status] ?? 'Gateway rule', message: 'Response blocked' });
    case 'JSON with other members':
      return JSON.stringify({ error: { code: status, reason: 'blocked' } });
  }
}
