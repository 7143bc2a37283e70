import { v7 as uuidV7 } from 'uuid';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * A new idempotency key: a UUIDv7, whose first bits are the time. Keys of one hour then lie together in the store's
 * B-tree, which measured 2 to 3 times the throughput of random ones. `atMs` (milliseconds since the epoch) replaces the clock.
 * The time is always given: left to itself the library never goes back after a clock that was ahead for a moment.
 */
export function generateIdempotencyKey(atMs: number = Date.now()): string {
  return uuidV7({ msecs: atMs });
}

export type KeyHeader = { state: 'missing' } | { state: 'invalid' } | { state: 'present'; key: string };

/**
 * Reads the value of an `Idempotency-Key` header (decisions P2): trimmed, in lower case, with or without the quotes of
 * the IETF draft. A header sent twice arrives joined by a comma, so it is no UUID and invalid.
 */
export function readKeyHeader(value: string | undefined): KeyHeader {
  // As the service gave it out: the usual case.
  if (value !== undefined && UUID.test(value)) return { state: 'present', key: value };
  if (isKeyHeaderMissing(value)) return { state: 'missing' };
  const key = unquote((value ?? '').trim()).toLowerCase();
  return UUID.test(key) ? { state: 'present', key } : { state: 'invalid' };
}

/** Whether `readKeyHeader` would say so. */
export function isKeyHeaderMissing(value: string | undefined): boolean {
  return unquote((value ?? '').trim()) === '';
}

function unquote(value: string): string {
  const quoted = value.length >= 2 && value.startsWith('"') && value.endsWith('"');
  return quoted ? value.slice(1, -1).trim() : value;
}
