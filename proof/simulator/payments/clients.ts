import type { PayAnswer } from '#idempay/payments/answers.js';
import type { CancelAnswer } from '#idempay/payments/cancel.js';
import type { Charge } from '#idempay/payments/history/charge.js';
import type { NewestOutcome } from '#idempay/payments/outcomes.js';
import type { PaymentArea } from '#idempay/payments/payments.js';
import type { RefundAnswer } from '#idempay/payments/refund.js';
import type { Content } from '#idempay/payments/values/content.js';
import type { Money, PaymentRequest } from '#idempay/payments/values/money.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { Reference } from '#idempay/payments/values/reference.js';
import { someContent } from '../../../testkit/protocol/contents.js';
import type { Random } from '../../../testkit/random.js';
import type { ObservedPayment } from '../observed.js';
import { isNoAnswer, type NoAnswer, type Request } from '../processes.js';
import type { World } from '../world.js';
import { attemptName, attemptOf, computeKey, nameOf, referenceOf } from './keys.js';
import {
  AMOUNTS,
  type KeyScript,
  type PaymentPlan,
  type PlannedOrder,
  type PlannedRefund,
  type PlannedRequest,
} from './plan.js';

const ASK_AGAIN_EVERY_MS = 5_000;
/** A client that asks again when the faults are over often waits. */
const PATIENCE_IN_THE_QUIET_MS = 8_000;
const REPEAT_WITHIN_MS = 3_000;
/** After rows were lost, clients ask again within one of these times. */
const AFTER_LOSS_MS = [1_000, 5_000, 20_000];
/** How often a cancellation is asked for, while the answer leaves it open or names another attempt. */
const CANCELLATIONS = 6;

const ONCE: PlannedOrder = { form: 'one request', attempt: 1, triesAgain: 0 };
const LATE_REQUEST = { kind: 'pay', otherAmount: undefined, patienceMs: 0, repeats: 0 } as const;
type SentRequest = Pick<PlannedRequest, keyof typeof LATE_REQUEST> & { readonly order?: PlannedOrder | undefined };

export interface Asked extends Request<PayAnswer> {
  /** With a bad source it cannot be the first request of a payment, and may repeat one. */
  readonly kind: PlannedRequest['kind'] | 'pay with a bad source';
  readonly amount: string;
  /** Each request has another source; only the first claim's source may be sent. */
  readonly content: Content | undefined;
  readonly patienceMs: number;
  /** True if a row existed when it was sent: then the key is known. */
  readonly knownAtSend: boolean;
  /** The state of the attempt before at that moment. */
  readonly previousAtSend: ObservedPayment['state'] | undefined;
  /** When the key was asked for, at the earliest, for a request that has the key alone. Undefined if the request names the reference. */
  keyFrom: number | undefined;
  stoppedMs?: number;
}

export interface Issued {
  /** Its name, and the key itself. */
  readonly key: string;
  readonly uuid: string;
  /** From which the key is computed. */
  readonly reference: Reference | undefined;
  readonly script: KeyScript;
  readonly askedForAt: number;
  readonly asked: Asked[];
  /** `only` means the attempt, and not the order. */
  readonly cancelled: (Request<CancelAnswer> &
    Pick<Asked, 'previousAtSend'> & { readonly only?: 'attempt' | undefined })[];
  readonly inquiries: (Request<FinalOutcome | 'none'> & { readonly finalAtSend: boolean })[];
  readonly refunds: (Request<RefundAnswer> & Pick<PlannedRefund, 'name' | 'amount'>)[];
  /** Requests for the attempt at the order that counts. */
  readonly orderInquiries: (Request<NewestOutcome> & { readonly completedAtSend: boolean })[];
  /** A refusal's statement on the charge of the key, or of all attempts at its order. `rowsAtSend` are the rows that they had then. */
  readonly chargeInquiries: (Request<Charge> & {
    readonly ofOrder: boolean;
    readonly rowsAtSend: readonly ObservedPayment[];
  })[];
}

/** The payers: each has one key, or one order, pays it in several ways, and knows only its answers. */
export function createPaymentClients({ simulation, processes, stores }: World<PaymentArea>, plan: PaymentPlan) {
  const { byKey } = stores.payments;
  const issued: Issued[] = [];
  const refunding = new Set<Issued>();
  let isFaulty = true;
  let isOver = false;
  let askingForKey = 0;

  async function issue(script: KeyScript): Promise<void> {
    const random = simulation.stream(`client ${script.number}`);
    const askedForAt = simulation.time;
    const uuid = await processes.call(script.instance, random, 'issue a key', ({ payments }) => {
      askingForKey = script.number;
      return payments.issueKey();
    });
    if (isNoAnswer(uuid)) return;
    simulation.count('keys issued');
    await use(known(script, nameOf(uuid), uuid, undefined, askedForAt), random);
  }

  function known(
    script: KeyScript,
    key: string,
    uuid: string,
    reference: Reference | undefined,
    askedForAt = simulation.time,
  ): Issued {
    const lists = { asked: [], cancelled: [], inquiries: [], orderInquiries: [], chargeInquiries: [], refunds: [] };
    const made: Issued = { key, uuid, reference, script, askedForAt, ...lists };
    issued.push(made);
    return made;
  }

  /** An attempt at the script's order: nothing is asked for before it is paid. */
  function attemptAt(script: KeyScript, attempt: number): Issued {
    const reference = referenceOf(script.number, attempt);
    const uuid = computeKey(reference);
    const name = attemptName(`k${script.number}`, attempt);
    return issued.find(({ key }) => key === name) ?? known(script, name, uuid, reference);
  }

  async function use(one: Issued, random: Random): Promise<void> {
    const { key, script } = one;
    for (const request of script.requests) {
      const own = simulation.stream(`request ${request.number} of ${key}`);
      const order = script.order?.[request.number];
      const send = () => {
        if (request.kind === 'ask for the outcome') return inquire(one, request.instance, own);
        return pay(order ? attemptAt(script, order.attempt) : one, { ...request, order }, request.instance, own);
      };
      simulation.after(request.afterMs, processes.clients, send);
    }
    const { cancelAfterMs } = script;
    const own = simulation.stream(`cancellation of ${key}`);
    if (cancelAfterMs !== undefined) simulation.after(cancelAfterMs, processes.clients, () => cancel(one, own));
    if (!isFaulty) await askUntilFinal(one, random);
  }

  async function pay(one: Issued, request: SentRequest, first: number, random: Random): Promise<void> {
    const { key, script, asked } = one;
    const { kind, patienceMs, repeats, order = ONCE } = request;
    const amount = request.otherAmount ?? script.amount;
    let instance = first;
    for (let left = repeats; ; left -= 1) {
      const content = someContent(script.number + asked.length, `${key}/${asked.length}`);
      const sent: Asked = { kind: kindOf(kind, content), amount, content, patienceMs, ...atSend(one) };
      asked.push(sent);
      const pausedMs = processes.pausedMs(instance);
      const answer = await send(one, sent, order.form, [instance, random]);
      const stoppedMs = processes.pausedMs(instance) - pausedMs;
      Object.assign(sent, { answer, answeredAt: simulation.time, stoppedMs });
      hear(key, answer);
      planRefunds(one, answer);
      if (isRefused(answer)) askForCharge(one, order.form, [instance, random.fork()]);
      if (isDeclined(answer) && order.triesAgain > 0) return tryAgain(one, { ...request, order }, random);
      if (isFinal(sent) || left === 0 || !isFaulty) return;
      instance = random.below(processes.size);
      await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    }
  }

  /** Once the payer knows that the payment is made. */
  function planRefunds(one: Issued, answer: PayAnswer | NoAnswer): void {
    if (!isPaid(answer) || refunding.has(one)) return;
    refunding.add(one);
    for (const [number, planned] of (one.script.refunds ?? []).entries()) {
      const own = simulation.stream(`refund ${number} of ${one.key}`);
      simulation.after(planned.afterMs, processes.clients, () => refund(one, planned, own));
    }
  }

  /** An order's payment is named by its order or by its key. */
  async function refund(one: Issued, planned: PlannedRefund, random: Random): Promise<void> {
    const { key, uuid, reference, refunds } = one;
    const { name, amount } = planned;
    let { instance } = planned;
    for (let left = planned.repeats; ; left -= 1) {
      const sent = { sentAt: simulation.time, name, amount };
      refunds.push(sent);
      const named = { key: uuid, client: reference?.client, ...(random.below(2) === 0 && { reference }) };
      const answer = await processes.call(instance, random, `refund ${name} of ${key}: ${amount}`, ({ payments }) =>
        payments.refund(named, { name, amount, currency: 'EUR' }),
      );
      Object.assign(sent, { answer, answeredAt: simulation.time });
      const told = typeof answer === 'string' ? answer : answer.state;
      simulation.count(`refunds: ${told}`);
      simulation.witness(told);
      simulation.note(`the client of ${key} hears of its refund ${name}: ${told}`);
      if (left === 0 || !isFaulty || told === 'final') return;
      instance = random.below(processes.size);
      await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    }
  }

  /** Each name is used again, sometimes for another amount. */
  function refundAfterLoss(one: Issued): void {
    for (const [number, planned] of (one.script.refunds ?? []).entries()) {
      const random = simulation.stream(`refund ${number} of ${one.key} after a loss at ${simulation.time}`);
      if (random.below(2) === 0) continue;
      const amount = random.below(4) === 0 ? random.pick(AMOUNTS) : planned.amount;
      const instance = random.below(processes.size);
      const again = () => refund(one, { ...planned, amount, instance, repeats: 3 }, random);
      simulation.after(random.below(random.pick(AFTER_LOSS_MS)), processes.clients, again);
    }
  }

  async function send(
    { key, uuid, reference }: Issued,
    sent: Asked,
    form: PlannedOrder['form'],
    [instance, random]: readonly [number, Random],
  ): Promise<PayAnswer | NoAnswer> {
    const { kind, amount, content, patienceMs } = sent;
    const money = requestedBy(kind, { amount, currency: 'EUR' }, content);
    const patience = patienceMs > 0 ? { ms: patienceMs, gone: new AbortController().signal } : undefined;
    const client = reference?.client;
    const what = `${kind} ${amount} with ${key}`;
    if (reference && form === 'one request') {
      return processes.call(instance, random, what, async ({ payments }) =>
        payments.pay({ key: uuid, client, reference }, money, patience),
      );
    }
    if (reference) {
      const keyFrom = simulation.time;
      const answer = await processes.call(instance, random, `issue the key of ${key}`, ({ payments }) =>
        payments.issueComputedKey(uuid, reference),
      );
      if (typeof answer === 'string' || answer.state !== 'issued') return answer as PayAnswer | NoAnswer;
      sent.keyFrom = keyFrom;
    }
    return processes.call(instance, random, what, async ({ payments }) =>
      payments.pay({ key: uuid, client }, money, patience),
    );
  }

  /** The payer decides after a decline, and names the next attempt. Nothing else charges again. */
  async function tryAgain({ key, script }: Issued, request: SentRequest & { order: PlannedOrder }, random: Random) {
    simulation.count('attempts after a decline');
    await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    const order = { ...request.order, triesAgain: request.order.triesAgain - 1 };
    await pay(attemptAt(script, attemptOf(key) + 1), { ...request, order }, random.below(processes.size), random);
  }

  function atSend(one: Issued) {
    const row = byKey.get(one.key);
    const lives = row?.reference !== null || (row.expiresAt ?? Infinity) > simulation.time;
    return {
      sentAt: simulation.time,
      knownAtSend: row !== undefined && lives,
      previousAtSend: previousOf(one),
      keyFrom: one.reference ? undefined : one.askedForAt,
    };
  }

  const previousOf = ({ reference, script }: Issued) =>
    reference && byKey.get(attemptName(`k${script.number}`, reference.attempt - 1))?.state;

  function hear(key: string, answer: PayAnswer | CancelAnswer | NoAnswer): void {
    simulation.witness(describe(answer));
    simulation.note(`the client of ${key} hears: ${describe(answer)}`);
    simulation.count(`answers: ${typeof answer === 'string' ? answer : answer.state}`);
    if (typeof answer === 'object' && 'waited' in answer) simulation.count('answers after a wait');
  }

  const attemptAfter =
    ({ script }: Issued, { attempt }: Reference) =>
    () =>
      attemptAt(script, attempt + 1);

  /** Follows the answers: if the payment was declined, the next attempt is the one to cancel. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: what follows each answer stands in one place.
  async function cancel(one: Issued, random: Random): Promise<void> {
    let subject = one;
    for (let asked = 0; asked < CANCELLATIONS; asked += 1) {
      const { uuid, reference, cancelled } = subject;
      const only = plan.shape.waits && reference && random.below(3) === 0 ? ('attempt' as const) : undefined;
      const sent = { sentAt: simulation.time, previousAtSend: previousOf(subject), only };
      cancelled.push(sent);
      const named = { key: uuid, client: reference?.client, reference };
      const answer = await processes.call(
        random.below(processes.size),
        random,
        `cancel ${subject.key}`,
        ({ payments }) => payments.cancel(named, only),
      );
      Object.assign(sent, { answer, answeredAt: simulation.time });
      simulation.count(`cancellations: ${typeof answer === 'string' ? answer : answer.state}`);
      hear(subject.key, answer);
      const state = typeof answer === 'object' ? answer.state : 'in progress';
      const next = reference && attemptAfter(subject, reference);
      if (state === 'cancelled' && only && next) return pay(next(), LATE_REQUEST, random.below(processes.size), random);
      if (state === 'declined' && next) subject = next();
      else if (!OPEN.includes(state)) return;
      await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    }
  }

  /** As a refusal does for a program that asks for it (rule P20). */
  async function askForCharge(
    { key, uuid, reference, script, chargeInquiries }: Issued,
    form: PlannedOrder['form'],
    [instance, random]: readonly [number, Random],
  ): Promise<void> {
    const client = reference?.client;
    // A computed key speaks of its order too (rule P20).
    const ofOrder = reference !== undefined;
    const named = ofOrder && form === 'one request' ? { key: uuid, client, reference } : { key: uuid, client };
    const about = ofOrder ? issued.filter((other) => other.script === script).map((other) => other.key) : [key];
    const rowsAtSend = about.flatMap((name) => byKey.get(name) ?? []);
    const inquiry = { sentAt: simulation.time, ofOrder, rowsAtSend };
    chargeInquiries.push(inquiry);
    const answer = await processes.call(instance, random, `tell the charge of ${key}`, ({ payments }) =>
      payments.tellCharge(named),
    );
    Object.assign(inquiry, { answer, answeredAt: simulation.time });
    simulation.count(`charges told: ${answer}`);
  }

  async function inquire(one: Issued, instance: number, random: Random): Promise<void> {
    const { key, uuid, reference, inquiries, orderInquiries, script } = one;
    simulation.count('inquiries');
    if (reference) {
      const attempts = issued.filter((other) => other.script === script).map((other) => byKey.get(other.key));
      const completedAtSend = attempts.some((row) => row?.state === 'COMPLETED' && row.finalAt !== undefined);
      const inquiry = { sentAt: simulation.time, completedAtSend };
      orderInquiries.push(inquiry);
      const answer = await processes.call(instance, random, `tell the outcome of ${key}`, ({ payments }) =>
        payments.newestOutcome({ key: uuid, client: reference.client, reference }),
      );
      Object.assign(inquiry, { answer, answeredAt: simulation.time });
      return;
    }
    const inquiry = { sentAt: simulation.time, finalAtSend: hasOutcome(byKey.get(key)) };
    inquiries.push(inquiry);
    const answer = await processes.call(
      instance,
      random,
      `tell the outcome of ${key}`,
      async ({ payments }) => (await payments.outcome(uuid)) ?? 'none',
    );
    Object.assign(inquiry, { answer, answeredAt: simulation.time });
  }

  async function askUntilFinal(one: Issued, random: Random): Promise<void> {
    while (!isOver && isAskedAgain(one) && !one.asked.some(isFinal)) {
      const patienceMs = random.below(2) === 0 ? PATIENCE_IN_THE_QUIET_MS : 0;
      pay(one, { ...LATE_REQUEST, patienceMs }, random.below(processes.size), random);
      await simulation.wait(ASK_AGAIN_EVERY_MS, processes.clients);
    }
  }

  /** Recovery finishes a refund for as long as the key of a payment lives. Afterwards only a repeat sends it. */
  async function refundUntilFinal(one: Issued, again: RefundAgain, random: Random): Promise<void> {
    await simulation.wait(plan.shape.idempotencyTtlMs, processes.clients);
    while (!isOver && isOpenRefund(one, again)) {
      await refund(one, { ...again, afterMs: 0, instance: random.below(processes.size), repeats: 0 }, random);
      await simulation.wait(ASK_AGAIN_EVERY_MS, processes.clients);
    }
  }

  return {
    issued,
    /** The client that the next key is for: so keys keep their names. */
    askingForKey: () => askingForKey,
    begin() {
      for (const script of plan.scripts as readonly KeyScript[]) {
        const begin = () =>
          script.order ? use(attemptAt(script, 1), simulation.stream(`client ${script.number}`)) : issue(script);
        simulation.after(script.at, processes.clients, begin);
      }
    },
    /** The faults have ended: a client that asks again does so until the answer is final. */
    askAgain() {
      isFaulty = false;
      for (const one of issued) {
        askUntilFinal(one, simulation.stream(`quiet client ${one.key}`));
        const asked = new Map(one.refunds.map(({ name, amount }) => [`${name} of ${amount}`, { name, amount }]));
        for (const [which, again] of asked) {
          refundUntilFinal(one, again, simulation.stream(`quiet refund ${which} of ${one.key}`));
        }
      }
    },
    /** The time of the history is over: nobody asks again, so that every request that was sent can be answered. */
    stopAsking() {
      isOver = true;
    },
    /** Hours later: some repeat their payment, whose row may be removed by then, or try an order again. */
    comeBack() {
      for (const one of [...issued]) {
        const random = simulation.stream(`late client ${one.key} at ${simulation.time}`);
        if (random.below(4) > 0) continue;
        const order = { ...ONCE, triesAgain: 1 };
        const send = () => pay(one, { ...LATE_REQUEST, order }, random.below(processes.size), random);
        simulation.after(random.below(REPEAT_WITHIN_MS), processes.clients, send);
      }
    },
    /** Rows were lost: some pay again, another amount or another attempt at their order, and some cancel it. Some repeat a refund. */
    askAfterLoss() {
      for (const one of refunding) refundAfterLoss(one);
      const scripts = new Set(issued.map(({ script }) => script));
      for (const script of scripts) {
        const random = simulation.stream(`client ${script.number} after a loss at ${simulation.time}`);
        if (random.below(4) === 0) continue;
        const attempts = issued.filter((one) => one.script === script);
        const otherAmount = random.below(2) === 0 ? random.pick(AMOUNTS) : undefined;
        const order = { ...ONCE, triesAgain: random.below(2) };
        const attempt = random.below(2) === 0 ? 1 : 1 + random.below(attempts.length + 1);
        const begin = () => {
          const one = script.order ? attemptAt(script, attempt) : attempts[0];
          if (!one) return undefined;
          if (random.below(3) === 0) return cancel(one, random);
          return pay(one, { ...LATE_REQUEST, otherAmount, repeats: 3, order }, random.below(processes.size), random);
        };
        simulation.after(random.below(random.pick(AFTER_LOSS_MS)), processes.clients, begin);
      }
    },
    haveTheirAnswers: () =>
      issued.every((one) => {
        const all = [
          ...one.asked,
          ...one.cancelled,
          ...one.inquiries,
          ...one.orderInquiries,
          ...one.chargeInquiries,
          ...one.refunds,
        ];
        const isAnswered = all.every(({ answer }) => answer !== undefined);
        return isAnswered && (!isAskedAgain(one) || one.asked.some(isFinal));
      }),
  };
}

/** Half of the nonsense has an amount that can be read. */
const kindOf = (planned: PlannedRequest['kind'], content: Content | undefined): Asked['kind'] =>
  planned === 'pay nonsense' && content?.source !== undefined ? 'pay with a bad source' : planned;

function requestedBy(kind: Asked['kind'], money: Money, content: Content | undefined): PaymentRequest {
  if (kind === 'pay') return { ...money, content };
  return kind === 'pay with a bad source' ? { problem: 'this is no source', money } : { problem: 'this is no amount' };
}

/** A later attempt is made only by a payer who decided so. */
export const isAskedAgain = ({ script, key }: Issued) => script.asksAgain && attemptOf(key) === 1;

const ENDS: readonly string[] = [
  ...['processed', 'replayed', 'mismatch', 'reference mismatch', 'cancelled', 'charged after cancellation'],
  ...['superseded', 'superseded at processor', 'other processor before loss'],
];

/** After such an answer the client does not ask again. With a reference it asks again also if its key was forgotten. */
export function isFinal({ answer, keyFrom, sentAt }: Asked): boolean {
  if (typeof answer !== 'object') return false;
  if (answer.state === 'invalid key') return keyFrom === undefined || keyFrom < sentAt;
  return (
    ENDS.includes(answer.state) ||
    (answer.state === 'not its turn' && !['under way', 'pending'].includes(answer.previous))
  );
}

export const hasOutcome = (row: ObservedPayment | undefined) => row?.finalAt !== undefined && row.state !== 'CANCELLED';

type RefundAgain = Pick<PlannedRefund, 'name' | 'amount'>;

/** The answers after which the same refund is asked for again. */
const OPEN_REFUND: readonly RefundAnswer['state'][] = [
  'pending',
  'in progress',
  'unknown',
  'not sent',
  'processor down',
  'busy',
];

/** True if the last answer to this refund of the payment leaves its outcome open, or never came. */
function isOpenRefund({ refunds }: Issued, again: RefundAgain): boolean {
  const answer = refunds.findLast(({ name, amount }) => name === again.name && amount === again.amount)?.answer;
  return typeof answer !== 'object' || OPEN_REFUND.includes(answer.state);
}

/** The answers after which a cancellation is asked for again. */
const OPEN: readonly CancelAnswer['state'][] = ['in progress', 'unknown', 'cannot be ended'];

const isRefused = (answer: PayAnswer | NoAnswer) =>
  typeof answer === 'object' && !('final' in answer && answer.final.outcome.state === 'COMPLETED');

const isPaid = (answer: PayAnswer | NoAnswer) =>
  typeof answer === 'object' && 'final' in answer && answer.final.outcome.state === 'COMPLETED';

const isDeclined = (answer: PayAnswer | NoAnswer) =>
  typeof answer === 'object' && 'final' in answer && answer.final.outcome.state === 'DECLINED';

export function describe(answer: PayAnswer | CancelAnswer | NoAnswer): string {
  if (typeof answer === 'string') return answer;
  if ('previous' in answer) return `${answer.state}: the one before is ${answer.previous}`;
  return 'final' in answer ? `${answer.state} ${describeOutcome(answer.final)}` : answer.state;
}

export const describeOutcome = ({ outcome }: FinalOutcome) =>
  outcome.state === 'COMPLETED' ? outcome.transactionId : `declined (${outcome.reason})`;
