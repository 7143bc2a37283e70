import { UnexpectedAnswerError } from '../errors.js';

/**
 * The cursor of the next page, out of `Link: <...?cursor=X>; rel="next"` (RFC 8288). Only the cursor of the address counts, because a
 * gateway may have the service at another path. Undefined on the last page. Throws if the link has no cursor, because a list that ended
 * there would look whole.
 */
export function nextCursor(headers: Headers): string | undefined {
  const [, target] = /<([^<>]*)>\s*;\s*rel="?next"?/i.exec(headers.get('link') ?? '') ?? [];
  if (target === undefined) return undefined;
  const [, query = ''] = /\?([^#]*)/.exec(target) ?? [];
  const cursor = new URLSearchParams(query).get('cursor');
  if (cursor) return cursor;
  throw new UnexpectedAnswerError(NO_CURSOR);
}

const NO_CURSOR = 'The Link to the next page has no cursor: something in between changed it.';
