import { expect, test } from 'vitest';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import {
  ASK_AGAIN_AFTER_MS,
  type KnownDatabase,
  RememberedOutcomes,
} from '#idempay/stores/redis/remembered-outcomes.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const EXPIRES_AT = 1_700_000_000_000;

function openRemembered(max?: number) {
  const clock = new HandClock();
  let database: KnownDatabase = { server: 'one', latestMs: EXPIRES_AT - 1 };
  return {
    remembered: new RememberedOutcomes(() => database, clock, max),
    clock,
    setDatabase: (change: Partial<KnownDatabase>) => {
      database = { ...database, ...change };
    },
  };
}

const finalOf = (client?: string): FinalOutcome => ({
  outcome: { state: 'COMPLETED', transactionId: 'TXN1' },
  fingerprint: '1.00 EUR',
  client,
  expiresAt: EXPIRES_AT,
});

test('an outcome is remembered until it has expired by the latest that the clock of the database may show', () => {
  const { remembered, setDatabase } = openRemembered();
  remembered.remember('key', finalOf());
  expect(remembered.find('key', undefined)).toEqual(finalOf());
  setDatabase({ latestMs: EXPIRES_AT });
  expect(remembered.find('key', undefined)).toBe(undefined);
});

test('nothing is remembered while the database is not heard of, and what is good is remembered afterwards', () => {
  const { remembered, setDatabase } = openRemembered();
  remembered.remember('key', finalOf());
  setDatabase({ latestMs: undefined });
  expect(remembered.find('key', undefined)).toBe(undefined);
  setDatabase({ latestMs: EXPIRES_AT - 1 });
  expect(remembered.find('key', undefined)).toEqual(finalOf());
});

test('outcomes from the time of another database server are forgotten, also when that server comes back', () => {
  const { remembered, setDatabase } = openRemembered();
  remembered.remember('key', finalOf());
  setDatabase({ server: 'another' });
  expect(remembered.find('key', undefined)).toBe(undefined);
  setDatabase({ server: 'one' });
  expect(remembered.find('key', undefined)).toBe(undefined);
});

test('a client finds its own outcomes and those without a client; a caller that sees all keys finds all', () => {
  const { remembered } = openRemembered();
  remembered.remember('own', finalOf('key:shop'));
  remembered.remember('everybody', finalOf());
  const found = (client?: string) => ['own', 'everybody'].map((key) => remembered.find(key, client) !== undefined);
  expect(found('key:shop')).toEqual([true, true]);
  expect(found('key:other')).toEqual([false, true]);
  expect(found()).toEqual([true, true]);
});

test('of more outcomes than are kept those that were asked for last are remembered', () => {
  const { remembered } = openRemembered(2);
  for (const key of ['a', 'b']) remembered.remember(key, finalOf());
  remembered.find('a', undefined);
  remembered.remember('c', finalOf());
  expect(['a', 'b', 'c'].map((key) => remembered.find(key, undefined) !== undefined)).toEqual([true, false, true]);
});

test('Redis is asked again some time after it returned an outcome, however often that was found', () => {
  const { remembered, clock } = openRemembered();
  remembered.remember('key', finalOf());
  clock.advance(ASK_AGAIN_AFTER_MS - 1);
  expect(remembered.find('key', undefined)).toEqual(finalOf());
  clock.advance(2);
  expect(remembered.find('key', undefined)).toBe(undefined);
});
