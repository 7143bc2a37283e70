// The keys of one server: those that a round will pay with, and those that were paid.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pay, sendJson } from '../testkit/client/http-client.js';
import { GOOD_BODY as PAYMENT } from '../testkit/client/payment-bodies.js';
import { pause } from '../testkit/time/until.js';
import { type Load, runWrk, type WrkResult } from './wrk.js';

const GENERATE_KEY = '/api/server-generated/generate-key';
const JSON_TYPE = { 'Content-Type': 'application/json' };
const KEY_HEADER = { 'Idempotency-Key': '{token}' };
/** For the warm-up, before any rate is known. */
const FIRST_KEYS = 10_000;
/** A round may be faster than the fastest before it; when it is faster still, it ends when its keys run out. */
const SPARE_KEYS = 1.4;
const CHECKED_PAYMENTS = 200;
/** Orders are numbered one after the other, as a shop does it; no round has the numbers of another one. */
const ORDERS_OF_A_MS = 1_000;
/** Preparation ends by count; this only bounds it. */
const PREPARATION = { seconds: 60, connections: 64 };
const SETTLE_DEADLINE_MS = 5000;
const POLL_MS = 50;

/** Payments with the keys of a file: each key once, or all of them again and again. */
export function paymentsWith(file: string, mode: 'once' | 'cycle'): Load {
  const args = ['POST', '/api/payment', PAYMENT, file, mode];
  return { script: 'keyed.lua', args, headers: { ...KEY_HEADER, ...JSON_TYPE } };
}

export class Payer {
  readonly keys: string;
  readonly #paidKeys: string;
  readonly #references: string;
  #keysForASecond = 0;
  #issued = 0;

  /** Its files of keys are in `folder`. A server that issues no keys of its own gets random ones. */
  constructor(
    readonly name: string,
    private readonly url: string,
    folder: string,
    private readonly issuesKeys = true,
  ) {
    this.keys = join(folder, `${name}-keys`);
    this.#paidKeys = join(folder, `${name}-paid-keys`);
    this.#references = join(folder, `${name}-references`);
  }

  /** Keys for a round of first payments; a round may not use them all. */
  async firstPayments(seconds: number): Promise<Load> {
    await this.#issue(Math.max(FIRST_KEYS, Math.ceil(this.#keysForASecond * seconds * SPARE_KEYS)));
    return paymentsWith(this.keys, 'once');
  }

  /** References for a round of payments of orders, none of which any round had before. */
  async orders(seconds: number): Promise<Load> {
    const count = Math.max(FIRST_KEYS, Math.ceil(this.#keysForASecond * seconds * SPARE_KEYS));
    const first = Date.now() * ORDERS_OF_A_MS;
    const names = Array.from({ length: count }, (_, index) => `order-${first + index}`);
    await writeLines(this.#references, names);
    const args = ['POST', '/api/payment?reference={token}', PAYMENT, this.#references, 'once'];
    return { script: 'keyed.lua', args, headers: JSON_TYPE };
  }

  /** Throws when an order was not paid. */
  async checkOrders({ requests }: WrkResult): Promise<void> {
    const paid = (await linesOf(this.#references)).slice(1, Math.min(requests, CHECKED_PAYMENTS));
    for (const reference of paid) {
      const { text, headers } = await sendJson(`${this.url}/api/payment?reference=${reference}`, 'POST', PAYMENT);
      assert.equal(headers['idempotent-replayed'], 'true', `${this.name}: an order was not paid: ${text}`);
    }
  }

  /** The same for a server that stores nothing, so it may get a key twice. */
  anyPayments(): Load {
    return paymentsWith(this.keys, 'cycle');
  }

  /** For how many keys the next round has. */
  noteRate({ requestsPerSecond }: WrkResult): void {
    this.#keysForASecond = Math.max(this.#keysForASecond, requestsPerSecond);
  }

  /** Throws when a first payment was not one. */
  async checkFirstPayments({ requests, used }: WrkResult): Promise<void> {
    assert.ok(
      requests <= used && used <= this.#issued,
      `${requests} answers to ${used} of ${this.#issued} keys of ${this.name}`,
    );
    // No key is sent twice, so an answer of 200 (wrk counts the others as errors) is a first one, if it is a payment.
    // wrk takes one request before it starts and never sends it: the first key was not paid.
    const paid = (await linesOf(this.keys)).slice(1, requests);
    // A warm-up of a second on a busy machine may have paid none.
    if (paid.length === 0) return;
    const sample = new Set(
      Array.from({ length: CHECKED_PAYMENTS }, () => paid[Math.floor(Math.random() * paid.length)] ?? ''),
    );
    const answers = new Set<string>();
    for (const key of sample) answers.add((await this.#repeat(key)).text);
    // The naive port takes its ids from the clock alone, as ports do: two payments of one millisecond share one.
    if (this.name !== 'naive') {
      assert.equal(answers.size, sample.size, `${this.name}: two keys were answered with one payment`);
    }
  }

  /** Pays that many keys, which no round before has seen. */
  async payFresh(count: number): Promise<void> {
    // So many requests may be without an answer when the keys run out.
    const unanswered = PREPARATION.connections;
    await this.#issue(count + unanswered);
    const { used } = await runWrk(this.url, paymentsWith(this.keys, 'once'), PREPARATION);
    await writeLines(this.#paidKeys, (await linesOf(this.keys)).slice(1, used - unanswered));
  }

  repeats(): Load {
    return paymentsWith(this.#paidKeys, 'cycle');
  }

  statuses(): Load {
    const args = ['GET', '/api/payment-status', '', this.#paidKeys, 'cycle'];
    return { script: 'keyed.lua', args, headers: KEY_HEADER };
  }

  async checkRepeats(): Promise<{ isMarked: boolean }> {
    const [key = ''] = await linesOf(this.#paidKeys);
    const [one, other] = [await this.#repeat(key), await this.#repeat(key)];
    assert.equal(one.text, other.text, `${this.name}: two repeats of one key differ`);
    return one;
  }

  async #issue(count: number): Promise<void> {
    this.#issued = count;
    if (!this.issuesKeys) {
      await writeLines(this.keys, Array.from({ length: count }, randomUUID));
      return;
    }
    const args = ['GET', GENERATE_KEY, '', '"([^"]+)"', this.keys, String(count)];
    await runWrk(this.url, { script: 'collect.lua', args }, PREPARATION);
  }

  /** The text of an answer to a key that was paid; asked again while the payment is still under way. */
  async #repeat(key: string): Promise<{ text: string; isMarked: boolean }> {
    const giveUpAt = performance.now() + SETTLE_DEADLINE_MS;
    for (;;) {
      const { status, text, headers } = await pay(this.url, key, PAYMENT);
      if (status === 200) return { text, isMarked: headers['idempotent-replayed'] === 'true' };
      assert.ok(performance.now() < giveUpAt, `${this.name}: a repeat of a paid key: ${status} ${text}`);
      await pause(POLL_MS);
    }
  }
}

export async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, 'utf8')).trimEnd().split('\n');
}

export async function writeLines(file: string, lines: readonly string[]): Promise<string> {
  await writeFile(file, `${lines.join('\n')}\n`);
  return file;
}
