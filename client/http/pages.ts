import type { CallOptions } from './call.js';
import { jsonOf } from './forms.js';
import { nextCursor } from './next-cursor.js';
import type { Requests } from './requests.js';
import type { Answer } from './transport.js';

/**
 * The results of a search, one by one, the newest first, or page by page. Nothing is asked before it is iterated, and each time it is asked
 * anew.
 */
export interface PagedList<T> extends AsyncIterable<T> {
  pages(): AsyncIterable<readonly T[]>;
}

export interface Search<T> {
  readonly path: string;
  /** Without the cursor. */
  readonly parameters: Readonly<Record<string, string | undefined>>;
  readonly isElement: (value: unknown) => value is T;
}

/** `search` is called for each iteration; an error that it throws rejects the first step. */
export function pagedList<T>(requests: Requests, options: CallOptions, search: () => Search<T>): PagedList<T> {
  const pages = () => pagesOf(requests, options, search);
  return {
    pages,
    async *[Symbol.asyncIterator]() {
      for await (const page of pages()) yield* page;
    },
  };
}

/** Can be iterated any number of times: each time it is asked anew. */
export function askedAnew<T>(ask: () => AsyncIterator<T>): AsyncIterable<T> {
  return { [Symbol.asyncIterator]: ask };
}

/** The parameters that are given. */
export function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

async function* pagesOf<T>(
  requests: Requests,
  options: CallOptions,
  search: () => Search<T>,
): AsyncGenerator<readonly T[]> {
  const { path, parameters, isElement } = search();
  let cursor: string | undefined;
  do {
    const request = { method: 'GET', path: `${path}${queryOf({ ...parameters, cursor })}` } as const;
    const page = await requests.send(options, request, (answer) => pageIn(answer, isElement));
    yield page.elements;
    cursor = page.next;
  } while (cursor !== undefined);
}

function pageIn<T>(
  answer: Answer,
  isElement: (value: unknown) => value is T,
): { readonly elements: readonly T[]; readonly next: string | undefined } | undefined {
  const elements = jsonOf(answer);
  if (!Array.isArray(elements) || !elements.every(isElement)) return undefined;
  return { elements, next: nextCursor(answer.headers) };
}
