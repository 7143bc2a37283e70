import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { isComputed } from '#idempay/payments/values/computed-key.js';
import { createComputeKey } from '#idempay/payments/values/reference.js';
import { createComputeRefundKey } from '#idempay/payments/values/refund.js';

const DEPLOYMENT = '0123456789abcdef';
const PAYMENT = '019abcde-1c1a-7f3e-8b5a-2f6c1d9e4b70';
/** The rows of the table of the document, without white space and marks. */
const TABLE = readFileSync('docs/reference/refunds.md', 'utf8').replaceAll(/[ `]/g, '').split('\n');

/** As docs/reference/refunds.md describes it, by the bytes of the hash, and not by its digits as the service does it. */
function keyOf(...parts: readonly string[]): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('');
  const bytes = createHash('sha256').update(`refund${text}`).digest().subarray(0, 16);
  bytes.writeUInt8(0xf0 | (bytes.readUInt8(0) & 0x0f), 0);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(6) & 0x0f), 6);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

describe('the key of a refund', () => {
  const compute = createComputeRefundKey(DEPLOYMENT);

  /** The document has them, so that a program in another language can be checked. They never change. */
  test.each([
    ['line-2', 'f8d3a85b-a334-8d5b-a913-4d806ec39cb2'],
    ['line-3', 'fb8a21b7-51b2-8488-892f-ad0e72937744'],
  ])('%s is %s', (name, key) => {
    expect(compute(PAYMENT, name)).toBe(key);
    expect(TABLE).toContain(['', DEPLOYMENT, PAYMENT, name, key, ''].join('|'));
  });

  test('is the hash of deployment, payment and name, as a UUIDv8 that begins with f', () => {
    for (const name of ['a', 'line-2', 'A-Z~._:/@', 'x'.repeat(128)]) {
      const key = compute(PAYMENT, name);
      expect(key).toBe(keyOf(DEPLOYMENT, PAYMENT, name));
      expect(isComputed(key)).toBe(true);
    }
  });

  test('differs for each payment, each name, and from the key of every reference', () => {
    const ofReference = createComputeKey(DEPLOYMENT)({ text: 'line-2', attempt: 1, client: PAYMENT });
    const keys = [compute(PAYMENT, 'line-2'), compute(PAYMENT, 'line-3'), compute(ofReference, 'line-2'), ofReference];
    expect(new Set(keys).size).toBe(4);
  });
});
