import type { TagCondition } from '../../transactions/transactions.js';

/** One entity tag of a list (RFC 9110 8.8.3), or what stands between two commas. */
const ENTITY_TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/;

/** A client may keep what has a tag, but must ask each time (rule T7), because it changes. */
export const REVALIDATE = 'private, no-cache';

export function quoted(tag: string): string {
  return `"${tag}"`;
}

/**
 * `If-None-Match` (RFC 9110 13.1.2) by weak comparison, and beyond it the bare tag of spec 4.3 list rule 3. Undefined
 * when the header is absent.
 */
export function ifNoneMatchCondition(header: string | undefined): TagCondition | undefined {
  if (header === undefined) return undefined;
  const value = header.trim();
  if (value === '*') return () => true;
  // The common case, one strong tag, must not cost a parse.
  return (tag) => isStrong(value, tag) || value === tag || tagsOf(value).some((other) => other.opaque === tag);
}

/** `If-Match` (RFC 9110 13.1.1) by strong comparison: a weak tag never matches. Undefined when absent or `*`. */
export function ifMatchCondition(header: string | undefined): TagCondition | undefined {
  if (header === undefined || header.trim() === '*') return undefined;
  const strong = tagsOf(header)
    .filter((tag) => !tag.weak)
    .map((tag) => tag.opaque);
  const bare = header.trim();
  return (tag) => strong.includes(tag) || bare === tag;
}

/** True if the value is the tag in quotes. */
function isStrong(value: string, tag: string): boolean {
  return value.length === tag.length + 2 && value.startsWith('"') && value.endsWith('"') && value.startsWith(tag, 1);
}

function tagsOf(header: string): { weak: boolean; opaque: string }[] {
  return header.split(',').flatMap((member) => {
    const match = ENTITY_TAG.exec(member.trim());
    return match ? [{ weak: match[1] !== undefined, opaque: match[2] ?? '' }] : [];
  });
}
