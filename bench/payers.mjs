// The keys of one server: those that a round will pay with, and those that were paid.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runWrk } from './wrk.mjs';

const PAYMENT = JSON.stringify({ amount: '100.50', currency: 'USD' });
const GENERATE_KEY = '/api/server-generated/generate-key';
const JSON_TYPE = { 'Content-Type': 'application/json' };
const KEY_HEADER = { 'Idempotency-Key': '{token}' };
/** For the warm-up, before any rate is known. */
const FIRST_KEYS = 10_000;
/** A round may be faster than the fastest before it; when it is faster still, it ends when its keys run out. */
const SPARE_KEYS = 1.4;
const CHECKED_PAYMENTS = 200;
/** Preparation ends by count; this only bounds it. */
const PREPARATION = { seconds: 60, connections: 64 };
const SETTLE_DEADLINE_MS = 5000;
const POLL_MS = 50;

/**
 * @param {string} name
 * @param {import('./contestants.mjs').Contestant} server
 * @param {string} folder  for its files of keys
 */
export function createPayer(name, { url, headers = {}, paymentPath, issuesKeys }, folder) {
  const keys = join(folder, `${name}-keys`);
  const paidKeys = join(folder, `${name}-paid-keys`);
  let keysForASecond = 0;
  let issued = 0;

  async function issue(count) {
    issued = count;
    if (!issuesKeys) return writeLines(keys, Array.from({ length: count }, randomUUID));
    const args = ['GET', GENERATE_KEY, '', '"([^"]+)"', keys, String(count)];
    await runWrk(url, { script: 'collect.lua', args, headers }, PREPARATION);
  }

  const load = (method, path, body, file, mode) => ({
    script: 'keyed.lua',
    args: [method, path, body, file, mode],
    headers: { ...KEY_HEADER, ...(body && JSON_TYPE), ...headers },
  });

  /** The text of an answer to a key that was paid; asked again while the payment is still under way. */
  async function repeat(key) {
    const giveUpAt = performance.now() + SETTLE_DEADLINE_MS;
    for (;;) {
      const answer = await fetch(url + paymentPath, {
        method: 'POST',
        headers: { ...JSON_TYPE, 'Idempotency-Key': key, ...headers },
        body: PAYMENT,
      });
      const text = await answer.text();
      if (answer.status === 200) return { text, isMarked: answer.headers.get('idempotent-replayed') === 'true' };
      assert.ok(performance.now() < giveUpAt, `${name}: a repeat of a paid key: ${answer.status} ${text}`);
      await delay(POLL_MS);
    }
  }

  return {
    /** Keys for a round of first payments; a round may not use them all. */
    async firstPayments(seconds) {
      await issue(Math.max(FIRST_KEYS, Math.ceil(keysForASecond * seconds * SPARE_KEYS)));
      return load('POST', paymentPath, PAYMENT, keys, 'once');
    },
    /** The same of a server that asks for no key of its own. */
    anyPayments: () => load('POST', paymentPath, PAYMENT, keys, 'cycle'),
    /** For how many keys the next round has. */
    noteRate({ requestsPerSecond }) {
      keysForASecond = Math.max(keysForASecond, requestsPerSecond);
    },
    /** Throws when a first payment was not one. */
    async checkFirstPayments({ requests, used }) {
      assert.ok(requests <= used && used <= issued, `${requests} answers to ${used} of ${issued} keys`);
      // No key is sent twice, so an answer of 200 (wrk counts the others as errors) is a first one, if it is a payment.
      // wrk takes one request before it starts and never sends it: the first key was not paid.
      const paid = (await linesOf(keys)).slice(1, requests);
      // A warm-up of a second on a busy machine.
      if (paid.length === 0) return;
      const sample = new Set(
        Array.from({ length: CHECKED_PAYMENTS }, () => paid[Math.floor(Math.random() * paid.length)]),
      );
      const answers = new Set();
      for (const key of sample) answers.add((await repeat(key)).text);
      // The naive port takes its ids from the clock alone, as ports do: two payments of one millisecond share one.
      if (name !== 'naive') assert.equal(answers.size, sample.size, `${name}: two keys were answered with one payment`);
    },
    /** Pays that many keys, which no round before has seen. */
    async payFresh(count) {
      // So many requests may be without an answer when the keys run out.
      const unanswered = PREPARATION.connections;
      await issue(count + unanswered);
      const { used } = await runWrk(url, load('POST', paymentPath, PAYMENT, keys, 'once'), PREPARATION);
      await writeLines(paidKeys, (await linesOf(keys)).slice(1, used - unanswered));
    },
    repeats: () => load('POST', paymentPath, PAYMENT, paidKeys, 'cycle'),
    async checkRepeats() {
      const [key] = await linesOf(paidKeys);
      const [one, other] = [await repeat(key), await repeat(key)];
      assert.equal(one.text, other.text, `${name}: two repeats of one key differ`);
      return one;
    },
    statuses: () => load('GET', '/api/payment-status', '', paidKeys, 'cycle'),
  };
}

export async function linesOf(file) {
  return (await readFile(file, 'utf8')).trimEnd().split('\n');
}

export function writeLines(file, lines) {
  return writeFile(file, `${lines.join('\n')}\n`);
}
