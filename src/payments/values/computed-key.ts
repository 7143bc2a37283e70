import { hash } from 'node:crypto';

/** Above every UUIDv7 until the year 10,000: so nothing that is said of keys below a moment is said of a computed key. */
const FIRST_DIGIT = 'f';
const COMPUTED = /^f.{13}8/;

/** A UUIDv8 of the text's hash. */
export function computedKeyOf(text: string): string {
  const digits = hash('sha256', text);
  const variant = '89ab'[Number.parseInt(digits.charAt(16), 16) & 3];
  return [
    `${FIRST_DIGIT}${digits.slice(1, 8)}`,
    digits.slice(8, 12),
    `8${digits.slice(13, 16)}`,
    `${variant}${digits.slice(17, 20)}`,
    digits.slice(20, 32),
  ].join('-');
}

/** A part has its length in bytes before it, so that no two lists of parts share a text. */
export function partOf(text: string): string {
  return `${Buffer.byteLength(text)}:${text}`;
}

/** True if the key is computed from a reference, or from the name of a refund, by its form. */
export function isComputed(key: string): boolean {
  return COMPUTED.test(key);
}
