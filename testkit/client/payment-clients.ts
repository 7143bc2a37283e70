import { DECLINED, type KeptPayment, type KeyHistory, type Send } from '../checkers/payment-evidence.js';
import { inParallel } from '../concurrency.js';
import { type ClientLog, LAST_PATIENCE_MS, type Told } from '../history/client-log.js';
import type { SupervisedService } from '../processes/supervised-service.js';
import type { Random } from '../random.js';
import { pause, until } from '../time/until.js';

/** Before a request is repeated that failed, or found nobody, at most: at once it would only heat the machine. */
const LONGEST_PAUSE_MS = 100;
const LONGEST_ABSENCE_MS = 400;
/** Parts of a hundred steps of a client; the rest are repeats of finished payments. */
const STEPS = { newKey: 34, openAgain: 8, status: 18 };
const FINISH_WIDTH = 16;
const LOOK_EVERY_MS = 100;
/** Each makes recovery leave a payment alone for twice as long: a second, two ... */
const MOST_ATTEMPTS = 2;
/** Each with as many decimals as it has, so that every amount below is written as it is kept. */
const DECIMALS = { EUR: 2, USD: 2, JPY: 0, KWD: 3 } as const;
const CURRENCIES = Object.keys(DECIMALS) as (keyof typeof DECIMALS)[];

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: (TXN\d+)"$/;
const REPEAT_TEXT = /^"Transaction ID: (TXN\d+)"$/;
const DECLINED_TEXT = '"message":"Payment declined: insufficient funds"';
const KEY_TEXT = /^"([0-9a-f-]{36})"$/;
/** Refusals by their status, and what each says. */
const REFUSALS: Readonly<Record<number, string>> = {
  400: '"message":"Invalid or missing Idempotency-Key."',
  404: '"message":"No payment found for this Idempotency-Key."',
  409: '"message":"Payment is already being processed."',
  503: '"status":503',
  504: '"message":"The outcome of the payment is not known yet',
};

/** Clients that pay, each key several times, and ask for what was paid before; whatever happens to whom they ask. */
export class PaymentClients {
  /** Keys that have an outcome: they are repeated for as long as the session lasts. */
  readonly #finished: KeyHistory[] = [];
  /** Keys that have none yet, or none any more. */
  readonly #open = new Set<KeyHistory>();

  constructor(
    private readonly log: ClientLog,
    private readonly random: Random,
  ) {}

  /** Those that have no outcome yet, for an operator to look at. */
  openKeys(): readonly KeyHistory[] {
    return [...this.#open];
  }

  async run(clients: number, stop: AbortSignal): Promise<void> {
    const randoms = Array.from({ length: clients }, () => this.random.fork());
    await Promise.all(randoms.map((random) => this.#client(random, stop)));
  }

  /**
   * Repeats every payment without an outcome until it is told, or the key turns out to be forgotten. Half of them are left
   * to recovery first, because a client may never come back.
   */
  async finish(deadlineMs: number): Promise<void> {
    const healedAt = performance.now();
    // A forgotten key is open once more: another of its requests may have claimed it when it was.
    for (const history of this.log.keys) if (!hasOutcome(history)) this.#open.add(history);
    const open = [...this.#open];
    await inParallel(open.length, FINISH_WIDTH, async (index) => {
      const history = open[index] as KeyHistory;
      const isLeft = index % 2 === 0;
      await until('an outcome', healedAt + deadlineMs - performance.now(), async () => {
        if (isLeft && (await this.#isLeftToRecovery(history))) return false;
        await this.#pay(history, this.log.choose(this.random.fraction()), this.random);
        return !this.#open.has(history);
      }).catch(() => {});
      if (!this.#open.has(history)) history.finishedAfterMs = performance.now() - healedAt;
    });
    for (const history of this.log.keys) if (!this.#open.has(history)) history.finishedAfterMs ??= 0;
  }

  /** Still PROCESSING, after so few attempts that recovery comes back to it as soon as a lease and one period allow. */
  async #isLeftToRecovery({ key }: KeyHistory): Promise<boolean> {
    await pause(LOOK_EVERY_MS);
    const ask = { method: 'GET', path: `/api/payments/${key}` } as const;
    const { answer } = await this.log.send(this.log.choose(this.random.fraction()), ask);
    if (answer.status !== 200) return false;
    const { state, attempts } = JSON.parse(answer.text) as KeptPayment;
    return state === 'PROCESSING' && attempts <= MOST_ATTEMPTS;
  }

  /** Each process repeats what was told, of so many keys. */
  async repeat(most: number): Promise<void> {
    const { length } = this.#finished;
    const chosen =
      length <= most ? this.#finished : Array.from({ length: most }, () => this.random.pick(this.#finished));
    for (const service of this.log.services) {
      await inParallel(chosen.length, FINISH_WIDTH, async (index) => {
        const history = chosen[index] as KeyHistory;
        const { status, sentAt, endedAt } = await this.#pay(history, service, this.random, LAST_PATIENCE_MS);
        if (status !== 0 && status !== 503) return;
        const what = `not repeated by ${service.name}: ${status} after ${Math.round(endedAt - sentAt)} ms`;
        this.log.violated('everything is back after healing', history.key, what);
      });
    }
  }

  async #client(random: Random, stop: AbortSignal): Promise<void> {
    const own: KeyHistory[] = [];
    while (!stop.aborted) {
      const roll = random.below(100);
      let well: boolean;
      if (own.length > 0 && roll < STEPS.openAgain) well = await this.#openAgain(own, random);
      else if (roll < STEPS.openAgain + STEPS.newKey || this.#finished.length === 0)
        well = await this.#new(own, random);
      else if (roll < STEPS.openAgain + STEPS.newKey + STEPS.status) well = await this.#status(own, random);
      else well = isWell(await this.#pay(random.pick(this.#finished), this.log.choose(random.fraction()), random));
      if (!well) await pause(random.below(this.log.isAnybodyThere() ? LONGEST_PAUSE_MS : LONGEST_ABSENCE_MS));
    }
  }

  async #new(own: KeyHistory[], random: Random): Promise<boolean> {
    const { answer, sentAt, cutByTheLiving } = await this.log.send(this.log.choose(random.fraction()), {
      method: 'GET',
      path: '/api/server-generated/generate-key',
    });
    const [, key] = KEY_TEXT.exec(answer.text) ?? [];
    if (answer.status !== 200 || key === undefined) {
      if (cutByTheLiving || ![0, 503].includes(answer.status)) {
        this.log.violated('every answer is one that was promised', 'generate-key', `${answer.status} ${answer.text}`);
      }
      return false;
    }
    const history: KeyHistory = { key, ...someMoney(random), issuedAt: sentAt, sends: [] };
    this.log.keys.push(history);
    this.#open.add(history);

    // Several times at once, mostly at different processes, or one after the other, after a success too.
    const times = 1 + random.below(3);
    const pay = () => this.#pay(history, this.log.choose(random.fraction()), random);
    let well = true;
    if (random.below(2) === 0) await Promise.all(Array.from({ length: times }, pay));
    else for (let time = 0; time < times && well; time += 1) well = isWell(await pay());
    if (this.#open.has(history)) own.push(history);
    return well;
  }

  /** Comes back to a payment without an outcome now and then, while recovery is at work on it or somebody is killed. */
  async #openAgain(own: KeyHistory[], random: Random): Promise<boolean> {
    const [history] = own.splice(random.below(own.length), 1) as [KeyHistory];
    if (!this.#open.has(history)) return true;
    const well = isWell(await this.#pay(history, this.log.choose(random.fraction()), random));
    if (this.#open.has(history)) own.push(history);
    return well;
  }

  async #status(own: readonly KeyHistory[], random: Random): Promise<boolean> {
    // Of a payment that is under way nothing may be told before it is so.
    const history = own.length > 0 && random.below(3) === 0 ? random.pick(own) : random.pick(this.#finished);
    const to = this.log.choose(random.fraction());
    const ask = { method: 'GET', path: '/api/payment-status', headers: `idempotency-key: ${history.key}\r\n` } as const;
    const send = begun('status', to);
    history.sends.push(send);
    return isWell(this.#ended(history, send, await this.log.send(to, ask)));
  }

  async #pay(history: KeyHistory, to: SupervisedService, random: Random, patienceMs?: number): Promise<Send> {
    const { key, amount, currency } = history;
    const prefer = random.below(6) === 0 ? 'prefer: wait=1\r\n' : '';
    const send = begun('pay', to);
    history.sends.push(send);
    const ask = {
      method: 'POST',
      path: '/api/payment',
      headers: `idempotency-key: ${key}\r\n${prefer}`,
      body: `{"amount":"${amount}","currency":"${currency}"}`,
    } as const;
    const told = await this.log.send(to, ask, patienceMs);
    return this.#ended(history, send, told);
  }

  /** Reads an answer into the log. */
  #ended(history: KeyHistory, send: Send, { answer, endedAt, cutByTheLiving }: Told): Send {
    const { status, text } = answer;
    send.endedAt = endedAt;
    send.status = status;
    if (cutByTheLiving) send.cutByTheLiving = true;
    const isReplay = answer.header('idempotent-replayed') === 'true';
    if (status === 200) {
      const isFirst = send.what === 'pay' && !isReplay;
      const [, id] = (isFirst ? FIRST_TEXT : REPEAT_TEXT).exec(text) ?? [];
      if (id === undefined) send.text = text;
      else this.#told(history, send, id);
      if (isFirst) {
        send.isFirst = true;
        this.log.lastPaymentSentAt = Math.max(this.log.lastPaymentSentAt, send.sentAt);
      }
    } else if (status === 402) {
      if (text.includes(DECLINED_TEXT)) this.#told(history, send, DECLINED);
      else send.text = text;
      if (!isReplay) send.isFirst = true;
    } else if (status !== 0 && !text.includes(REFUSALS[status] ?? '\0')) {
      send.text = text;
    }
    // Forgotten before it was paid: the judge says whether it may be.
    if (status === 400 && send.outcome === undefined) this.#open.delete(history);
    return send;
  }

  #told(history: KeyHistory, send: Send, outcome: string): void {
    send.outcome = outcome;
    if (this.#open.delete(history)) this.#finished.push(history);
  }
}

/** Else its client had better take a breath. */
function isWell({ status }: Send): boolean {
  return status !== 0 && status !== 503 && status !== 409 && status !== 504;
}

function hasOutcome({ sends }: KeyHistory): boolean {
  return sends.some(({ outcome }) => outcome !== undefined);
}

function begun(what: Send['what'], to: SupervisedService): Send {
  const now = performance.now();
  return { what, to: to.name, sentAt: now, endedAt: Number.POSITIVE_INFINITY, status: 0 };
}

function someMoney(random: Random): { amount: string; currency: string } {
  const currency = random.pick(CURRENCIES);
  const units = `${1 + random.below(99_999)}`;
  const decimals = DECIMALS[currency];
  if (decimals === 0) return { amount: units, currency };
  return { amount: `${units}.${`${random.below(10 ** decimals)}`.padStart(decimals, '0')}`, currency };
}
