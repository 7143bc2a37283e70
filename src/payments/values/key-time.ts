/** A UUIDv7 begins with its time: 48 bits, milliseconds since the epoch (RFC 9562 5.7). */
const TIME_DIGITS = 12;
const LATEST_MS = 2 ** 48 - 1;

/** The lowest key that can be generated at or after this moment (milliseconds since the epoch). */
export function lowestKeyAt(ms: number): string {
  const time = Math.min(Math.max(Math.ceil(ms), 0), LATEST_MS);
  const digits = time.toString(16).padStart(TIME_DIGITS, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-000000000000`;
}

/** When the key was generated, by the clock of the process that did; milliseconds since the epoch. */
export function keyTimeOf(key: string): number {
  return Number.parseInt(key.replaceAll('-', '').slice(0, TIME_DIGITS), 16);
}
