import { beforeEach, expect, test } from 'vitest';
import { FairPlaces } from '#idempay/payments/fair-places.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/**
 * Bug: one client took all places of payments in flight: of another client's 30 payments, 28 were refused.
 * Cause: the places went to the clients that asked most.
 * Fix: while another client was refused in the last second, a client gets no more than its share (rule P16).
 */
const PLACES = 12;
let clock: HandClock;
let places: FairPlaces;

beforeEach(() => {
  clock = new HandClock();
  places = new FairPlaces(PLACES, clock);
});

/** How many of this number of questions got a place. */
const taken = (client: string | undefined, count: number) =>
  Array.from({ length: count }, () => places.take(client)).filter(Boolean).length;
const giveBack = (client: string | undefined, count: number) => {
  for (let index = 0; index < count; index += 1) places.giveBack(client);
};

test('a client may have all places while nobody else asks, and nobody has more than all', () => {
  expect(taken('greedy', 20)).toBe(PLACES);
  giveBack('greedy', 5);
  expect(taken('greedy', 20)).toBe(5);
  giveBack('greedy', PLACES);
  expect(taken(undefined, 20)).toBe(PLACES);
  giveBack(undefined, 1);
  expect(taken(undefined, 2)).toBe(1);
});

test('while another client was refused in the last second, a client with its share gets no further place', () => {
  expect(taken('greedy', PLACES)).toBe(PLACES);
  expect(taken('payer', 1)).toBe(0);
  giveBack('greedy', 3);
  expect(taken('greedy', 3)).toBe(0);
  expect(taken('payer', 3)).toBe(3);
  // Half of the places are each one's share, whoever holds the rest.
  expect(taken('payer', 1)).toBe(0);
  giveBack('greedy', 4);
  expect(taken('greedy', 4)).toBe(1);
  expect(taken('payer', 4)).toBe(3);
});

/** Bug: of a client with several payers one was refused after the other. Cause: its first place ended the time. */
test('a client that was refused may take its whole share, although another goes on asking', () => {
  expect(taken('greedy', PLACES)).toBe(PLACES);
  expect(taken('payer', 1)).toBe(0);
  giveBack('greedy', 5);
  // For longer than a client that is gone.
  for (let payment = 0; payment < 30; payment += 1) {
    expect(taken('payer', 3)).toBe(3);
    clock.advance(900);
    expect(taken('greedy', 1)).toBe(0);
    giveBack('payer', 3);
  }
});

test('a second after the last refusal of another client, all places are for everybody', () => {
  expect(taken('greedy', PLACES)).toBe(PLACES);
  expect(taken('payer', 1)).toBe(0);
  giveBack('greedy', 3);
  clock.advance(1_000);
  expect(taken('greedy', 1)).toBe(0);
  clock.advance(1_001);
  expect(taken('greedy', 4)).toBe(3);
});

test('a client that comes back when Retry-After has passed finds a place, although another goes on asking', () => {
  expect(taken('greedy', PLACES)).toBe(PLACES);
  for (let payment = 0; payment < 5; payment += 1) {
    expect(taken('payer', 1)).toBe(0);
    for (let passed = 0; passed < 3_000; passed += 100) {
      clock.advance(100);
      giveBack('greedy', 1);
      if (!places.take('greedy')) break;
    }
    clock.advance(900);
    expect(taken('greedy', 1)).toBe(0);
    expect(taken('payer', 1)).toBe(1);
    giveBack('payer', 1);
    clock.advance(1_001);
    expect(taken('greedy', PLACES)).toBe(1);
  }
});

test('a client that does not come back delays the others for ten seconds at most', () => {
  expect(taken('greedy', PLACES)).toBe(PLACES);
  expect(taken('gone', 1)).toBe(0);
  giveBack('greedy', 1);
  let refusals = 0;
  while (!places.take('greedy')) {
    refusals += 1;
    clock.advance(500);
  }
  expect(refusals).toBe(21);
});

test('each client has at least one place, however many there are', () => {
  const names = Array.from({ length: 30 }, (_, index) => `client ${index}`);
  expect(names.filter((name) => places.take(name))).toHaveLength(PLACES);
  for (const name of names.slice(0, PLACES)) places.giveBack(name);
  expect(names.slice(PLACES).filter((name) => places.take(name))).toHaveLength(PLACES);
});
