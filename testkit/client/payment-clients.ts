import { randomUUID } from 'node:crypto';
import type { Content } from '#idempay/payments/values/content.js';
import { ASK_AGAIN_AFTER_MS } from '#idempay/stores/redis/remembered-outcomes.js';
import { inParallel } from '../concurrency.js';
import { type History, KEY_HEADER, type Target } from '../history/history.js';
import {
  answered,
  begun,
  CANCELLED,
  DECLINED,
  type Exchange,
  type KeyHistory,
  type Order,
  outcomeOf,
} from '../history/payments.js';
import { someContent, textOf } from '../protocol/contents.js';
import type { Random } from '../random.js';
import { pause, until } from '../time/until.js';

/** Parts of a hundred steps of a client; the rest are repeats of finished payments. */
const STEPS = { payOpenAgain: 8, newKey: 34, status: 18 };
/** New payments in a hundred that have a reference, if clients pay by references. */
const ORDERS = 40;
/** All at once, in one request or in two. */
const CALLERS_OF_AN_ORDER = 4;
/** One in this number of orders is cancelled while it is paid, and after one in this number of declines nobody tries again. */
const CANCELLATIONS = 10;
const GIVEN_UP = 3;
/** Keys that a client keeps unpaid at most, so that some wait for their payment while processes are killed. */
const STOCK = 4;
const MOST_AT_ONCE = 3;
const FINISH_WIDTH = 16;
const LOOK_EVERY_MS = 100;
/** Each attempt doubles the time until recovery tries the payment again: a second, two ... */
const MOST_EXECUTIONS = 2;
/** Each with as many decimals as it has, so that every amount below is written as it is kept. */
const DECIMALS = { EUR: 2, USD: 2, JPY: 0, KWD: 3 } as const;
const KEY_TEXT = /^"([0-9a-f-]{36})"$/;

/** Clients that pay, each key several times, and ask for what was paid before; whatever happens to the processes. */
export class PaymentClients {
  /** Keys that have an outcome: they are repeated for as long as the load lasts. */
  readonly finished: KeyHistory[] = [];
  readonly #open = new Set<KeyHistory>();
  #contents = 0;

  constructor(
    private readonly history: History,
    private readonly random: Random,
    /** A part of the payments is known by references alone, which are paid by several callers. */
    private readonly withOrders = false,
  ) {}

  get openKeys(): readonly KeyHistory[] {
    return [...this.#open];
  }

  async run(clients: number, stop: AbortSignal): Promise<void> {
    const randoms = Array.from({ length: clients }, () => this.random.fork());
    await Promise.all(randoms.map((random) => this.#client(random, stop)));
  }

  async issue(random = this.random, to = this.#any(random)): Promise<KeyHistory | undefined> {
    const reply = await this.history.send(to, '/api/server-generated/generate-key');
    const { status, sentAt, endedAt } = reply;
    const [, key] = KEY_TEXT.exec(reply.text) ?? [];
    if (status !== 200 || key === undefined) {
      this.history.unexpected('generate-key', reply);
      return undefined;
    }
    const history: KeyHistory = { key, ...someMoney(random), issuedAt: sentAt, receivedAt: endedAt, exchanges: [] };
    this.history.keys.push(history);
    this.#open.add(history);
    return history;
  }

  /** By its reference, if it has one. */
  async pay(key: KeyHistory, to: Target, prefer?: string, byKey = key.order === undefined): Promise<Exchange> {
    const exchange = begun(key, 'pay', to.name);
    const named: Record<string, string> = byKey ? { [KEY_HEADER]: key.key } : {};
    const headers = { ...named, 'Content-Type': 'application/json', ...(prefer && { Prefer: prefer }) };
    const body = JSON.stringify({ amount: key.amount, currency: key.currency, ...this.#nextContent(key) });
    const path = `/api/payment${byKey ? '' : queryOf(key.order)}`;
    const reply = await this.history.send(to, path, { method: 'POST', headers, body });
    return this.#ended(key, answered(exchange, reply));
  }

  /** Each request has another source, as from a payment page. It may be what is charged only if no outcome is known yet. */
  #nextContent(key: KeyHistory): Content | undefined {
    this.#contents += 1;
    const content = someContent(this.#contents, `${this.#contents}`);
    key.contents ??= new Set();
    if (outcomeOf(key) === undefined) key.contents.add(textOf(content));
    return content;
  }

  async status(key: KeyHistory, to: Target): Promise<Exchange> {
    const exchange = begun(key, 'status', to.name);
    const headers: Record<string, string> = key.order ? {} : { [KEY_HEADER]: key.key };
    const path = `/api/payment-status${queryOf(key.order)}`;
    return this.#ended(key, answered(exchange, await this.history.send(to, path, { headers })));
  }

  async #cancel(key: KeyHistory, to: Target): Promise<Exchange> {
    const exchange = begun(key, 'cancel', to.name);
    const path = `/api/payment-cancellation${queryOf(key.order)}`;
    return this.#ended(key, answered(exchange, await this.history.send(to, path, { method: 'POST' })));
  }

  /** Asks for the key of the reference, and pays by that alone. Undefined if there was no key. */
  async #payInTwoRequests(key: KeyHistory, random: Random): Promise<Exchange | undefined> {
    const path = `/api/server-generated/generate-key${queryOf(key.order)}`;
    const reply = await this.history.send(this.#any(random), path);
    const [, computed] = KEY_TEXT.exec(reply.text) ?? [];
    if (reply.status === 200 && computed !== undefined) {
      key.key ||= computed;
      key.receivedAt = reply.endedAt;
      if (computed === key.key) return this.pay(key, this.#any(random), undefined, true);
    }
    // It was cancelled meanwhile.
    if (reply.status !== 410) this.history.unexpected(JSON.stringify(key.order), reply);
    return undefined;
  }

  /**
   * Repeats every payment without an outcome until it is answered, or the key turns out to be forgotten. Half of them are left
   * to recovery first, because a client may never come back.
   */
  async finish(deadlineMs: number): Promise<void> {
    const healedAt = performance.now();
    // A forgotten key is open once more: another of its requests may have claimed it when it was.
    for (const history of this.history.keys) if (outcomeOf(history) === undefined) this.#open.add(history);
    const open = this.openKeys;
    await inParallel(open.length, FINISH_WIDTH, async (index) => {
      const history = open[index] as KeyHistory;
      const isLeft = index % 2 === 0;
      await until('an outcome', healedAt + deadlineMs - performance.now(), async () => {
        if (isLeft && (await this.#isLeftToRecovery(history))) return false;
        await this.pay(history, this.#any());
        return !this.#open.has(history);
      }).catch(() => {});
      if (!this.#open.has(history)) history.finishedAfterMs = performance.now() - healedAt;
    });
    for (const history of this.history.keys) if (!this.#open.has(history)) history.finishedAfterMs ??= 0;
  }

  /** Each process gives the outcomes of this number of keys again: as a repeat, as the status, and as the value of the record. */
  async repeat(most: number): Promise<void> {
    const { length } = this.finished;
    const chosen = length <= most ? this.finished : Array.from({ length: most }, () => this.random.pick(this.finished));
    for (const to of this.history.targets) {
      const missing = await this.#notRepeated(to, chosen);
      // A process may answer repeats from its memory, and writes a record that Redis lost only when it asks Redis again.
      if (missing.length > 0) await pause(ASK_AGAIN_AFTER_MS);
      const lost = await this.#notRepeated(
        to,
        missing.map(({ history }) => history),
      );
      for (const { history, what } of lost) this.history.notRestored(history.key, what);
    }
  }

  async #notRepeated(to: Target, histories: readonly KeyHistory[]): Promise<{ history: KeyHistory; what: string }[]> {
    const missing: { history: KeyHistory; what: string }[] = [];
    await inParallel(histories.length, FINISH_WIDTH, async (index) => {
      const history = histories[index] as KeyHistory;
      const told = outcomeOf(history) as string;
      const repeat = await this.pay(history, to);
      const status = await this.status(history, to);
      const record = await this.history.send(to, `/api/health/redis/key/${history.key}`);
      if (repeat.outcome === CANCELLED && told === CANCELLED) return;
      // A payment that a cancellation ended at the processor is cancelled for the cancellation, and declined for its payer.
      const outcome = told === CANCELLED && repeat.outcome === DECLINED ? DECLINED : told;
      const value = outcome === DECLINED ? 'DECLINED' : outcome;
      // The row of a reference answers by itself: the embedded deployment keeps no record of a payment in one request.
      const isRecorded = record.text.includes(`"${value}"`) || (history.order && record.status === 404);
      if (repeat.outcome && (status.outcome || outcome === DECLINED) && isRecorded) return;
      const what = `not repeated by ${to.name}: ${repeat.status}, ${status.status}, ${record.status} ${record.text}`;
      missing.push({ history, what });
    });
    return missing;
  }

  async #client(random: Random, stop: AbortSignal): Promise<void> {
    const open: KeyHistory[] = [];
    const stock: KeyHistory[] = [];
    const { payOpenAgain, newKey, status } = STEPS;
    while (!stop.aborted) {
      const roll = random.below(100);
      let isWell: boolean;
      if (open.length > 0 && roll < payOpenAgain) isWell = await this.#payOpenAgain(open, random);
      else if (roll < payOpenAgain + newKey || this.finished.length === 0)
        isWell = await this.#payNew(stock, open, random, stop);
      else if (roll < payOpenAgain + newKey + status) isWell = await this.#askStatus(open, random);
      else isWell = hasSucceeded(await this.pay(random.pick(this.finished), this.#any(random)));
      if (!isWell) await pause(random.below(this.history.longestPauseMs));
    }
  }

  /** Several times at once, mostly at different processes, or one after the other, after a success too. */
  async #payNew(stock: KeyHistory[], open: KeyHistory[], random: Random, stop: AbortSignal): Promise<boolean> {
    if (this.withOrders && random.below(100) < ORDERS) {
      const order = { reference: `order-${randomUUID()}`, attempt: 1 };
      return this.#payOrder({ order, ...someMoney(random) }, open, random);
    }
    const issued = await this.issue(random);
    if (!issued) return false;
    stock.push(issued);
    const [key] = stock.splice(random.below(stock.length), stock.length >= STOCK || random.below(2) === 0 ? 1 : 0);
    if (!key) return true;
    const times = 1 + random.below(MOST_AT_ONCE);
    let isWell = true;
    if (random.below(2) === 0) await Promise.all(Array.from({ length: times }, () => this.#paySomewhere(key, random)));
    else
      for (let time = 0; time < times && isWell && !stop.aborted; time += 1)
        isWell = await this.#paySomewhere(key, random);
    if (this.#open.has(key)) open.push(key);
    return isWell;
  }

  /** Several callers at once, which know the order and nothing else. After a decline its payer may decide to try again. */
  async #payOrder(
    named: Pick<KeyHistory, 'amount' | 'currency'> & { readonly order: Order },
    open: KeyHistory[],
    random: Random,
  ): Promise<boolean> {
    const now = performance.now();
    const key: KeyHistory = { key: '', ...named, issuedAt: now, receivedAt: now, exchanges: [] };
    this.history.keys.push(key);
    this.#open.add(key);
    const callers = Array.from({ length: CALLERS_OF_AN_ORDER }, () => this.#paySomewhere(key, random));
    if (random.below(CANCELLATIONS) === 0) callers.push(this.#cancel(key, this.#any(random)).then(hasSucceeded));
    const isWell = (await Promise.all(callers)).includes(true);
    if (this.#open.has(key)) open.push(key);
    if (outcomeOf(key) !== DECLINED || random.below(GIVEN_UP) === 0) return isWell;
    const { reference, attempt } = named.order;
    return this.#payOrder({ ...named, order: { reference, attempt: attempt + 1 } }, open, random);
  }

  /** Comes back to a payment without an outcome now and then, while recovery is at work on it or a process is killed. */
  async #payOpenAgain(open: KeyHistory[], random: Random): Promise<boolean> {
    const [key] = open.splice(random.below(open.length), 1) as [KeyHistory];
    if (!this.#open.has(key)) return true;
    // Its lease may be over, so that the cancellation ends it at the processor.
    const isGivenUp = key.order && random.below(CANCELLATIONS) === 0;
    const isWell = isGivenUp
      ? hasSucceeded(await this.#cancel(key, this.#any(random)))
      : await this.#paySomewhere(key, random);
    if (this.#open.has(key)) open.push(key);
    return isWell;
  }

  async #paySomewhere(key: KeyHistory, random: Random): Promise<boolean> {
    if (key.order && random.below(2) === 0) {
      const exchange = await this.#payInTwoRequests(key, random);
      return exchange !== undefined && hasSucceeded(exchange);
    }
    return hasSucceeded(await this.pay(key, this.#any(random), random.below(6) === 0 ? 'wait=1' : undefined));
  }

  /** Also of a payment that is under way: nothing may be answered of it before it is committed. */
  async #askStatus(open: readonly KeyHistory[], random: Random): Promise<boolean> {
    const key = open.length > 0 && random.below(3) === 0 ? random.pick(open) : random.pick(this.finished);
    return hasSucceeded(await this.status(key, this.#any(random)));
  }

  /** Still PROCESSING, after so few executions that recovery tries it again after a lease and one period. */
  async #isLeftToRecovery({ key }: KeyHistory): Promise<boolean> {
    await pause(LOOK_EVERY_MS);
    const { status, text } = await this.history.send(this.#any(), `/api/payments/${key}`);
    if (status !== 200) return false;
    const { state, executions } = JSON.parse(text) as { state: string; executions: number };
    return state === 'PROCESSING' && executions <= MOST_EXECUTIONS;
  }

  #ended(key: KeyHistory, exchange: Exchange): Exchange {
    const { isFirst, status, sentAt, outcome } = exchange;
    if (key.order) key.key ||= exchange.key ?? '';
    if (isFirst && status === 200) this.history.lastPaymentSentAt = Math.max(this.history.lastPaymentSentAt, sentAt);
    // With 400 it was forgotten before it was paid: the checker says whether it may be.
    // The key of a reference is asked for again.
    const isForgotten = status === 400 && !key.order;
    const isOver = (outcome !== undefined || isForgotten) && this.#open.delete(key);
    if (isOver && outcome !== undefined) this.finished.push(key);
    return exchange;
  }

  #any(random = this.random): Target {
    return this.history.choose(random.fraction());
  }
}

const queryOf = (order: Order | undefined) => (order ? `?reference=${order.reference}&attempt=${order.attempt}` : '');

const hasSucceeded = ({ status }: Exchange) => ![0, 503, 409, 504].includes(status);

function someMoney(random: Random): { amount: string; currency: string } {
  const [currency, decimals] = random.pick(Object.entries(DECIMALS));
  const units = `${1 + random.below(99_999)}`;
  const fraction = `${random.below(10 ** decimals)}`.padStart(decimals, '0');
  return { amount: decimals === 0 ? units : `${units}.${fraction}`, currency };
}
