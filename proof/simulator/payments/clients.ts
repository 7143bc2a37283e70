import type { PayAnswer } from '#idempay/payments/answers.js';
import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { Random } from '../../../testkit/random.js';
import { isNoAnswer, type NoAnswer, type Request } from '../processes.js';
import type { World } from '../world.js';
import { nameOf } from './keys.js';
import type { KeyScript, PaymentPlan, PlannedRequest } from './plan.js';

const ASK_AGAIN_EVERY_MS = 5_000;
/** A client that asks again when the faults are over often waits. */
const PATIENCE_IN_THE_QUIET_MS = 8_000;
const REPEAT_WITHIN_MS = 3_000;

const LATE_REQUEST = { kind: 'pay', otherAmount: undefined, patienceMs: 0, repeats: 0 } as const;
type SentRequest = Pick<PlannedRequest, keyof typeof LATE_REQUEST>;

export interface Asked extends Request<PayAnswer> {
  readonly kind: PlannedRequest['kind'];
  readonly amount: string;
  readonly patienceMs: number;
  /** Whether a row existed when it was sent: then the key is known. */
  readonly knownAtSend: boolean;
  stoppedMs?: number;
}

export interface Issued {
  /** Its name, and the key itself. */
  readonly key: string;
  readonly uuid: string;
  readonly script: KeyScript;
  readonly askedForAt: number;
  readonly asked: Asked[];
  readonly inquiries: (Request<FinalOutcome | 'none'> & { readonly finalAtSend: boolean })[];
}

/** The payers: each has one key, pays with it in several ways, and knows only its answers. */
export function createPaymentClients({ simulation, processes, stores }: World<PaymentArea>, plan: PaymentPlan) {
  const { byKey } = stores.payments;
  const issued: Issued[] = [];
  let isFaulty = true;
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
    const key = nameOf(uuid);
    const known: Issued = { key, uuid, script, askedForAt, asked: [], inquiries: [] };
    issued.push(known);
    for (const request of script.requests) {
      const own = simulation.stream(`request ${request.number} of ${key}`);
      const send = () =>
        request.kind === 'ask for the outcome'
          ? inquire(known, request.instance, own)
          : pay(known, request, request.instance, own);
      simulation.after(request.afterMs, processes.clients, send);
    }
    if (!isFaulty) await askUntilFinal(known, random);
  }

  async function pay(known: Issued, request: SentRequest, first: number, random: Random): Promise<void> {
    const { key, uuid, script, asked } = known;
    const { kind, patienceMs, repeats } = request;
    const amount = request.otherAmount ?? script.amount;
    const money = kind === 'pay' ? { amount, currency: 'EUR' } : { problem: 'this is no amount' };
    const patience = patienceMs > 0 ? { ms: patienceMs, gone: new AbortController().signal } : undefined;
    let instance = first;
    for (let left = repeats; ; left -= 1) {
      const row = byKey.get(key);
      const knownAtSend = row !== undefined && (row.expiresAt ?? Infinity) > simulation.time;
      const one: Asked = { kind, amount, patienceMs, sentAt: simulation.time, knownAtSend };
      asked.push(one);
      const pausedMs = processes.pausedMs(instance);
      const answer = await processes.call(instance, random, `${kind} ${amount} with ${key}`, async ({ payments }) =>
        payments.pay(uuid, money, patience),
      );
      const stoppedMs = processes.pausedMs(instance) - pausedMs;
      Object.assign(one, { answer, answeredAt: simulation.time, stoppedMs });
      hear(key, answer);
      if (isFinal(one) || left === 0 || !isFaulty) return;
      instance = random.below(processes.size);
      await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    }
  }

  function hear(key: string, answer: PayAnswer | NoAnswer): void {
    simulation.witness(describe(answer));
    simulation.note(`the client of ${key} hears: ${describe(answer)}`);
    simulation.count(`answers: ${typeof answer === 'string' ? answer : answer.state}`);
    if (typeof answer === 'object' && answer.waited) simulation.count('answers after a wait');
  }

  async function inquire({ key, uuid, inquiries }: Issued, instance: number, random: Random): Promise<void> {
    const inquiry = { sentAt: simulation.time, finalAtSend: byKey.get(key)?.finalAt !== undefined };
    inquiries.push(inquiry);
    const answer = await processes.call(
      instance,
      random,
      `tell the outcome of ${key}`,
      async ({ payments }) => (await payments.outcome(uuid)) ?? 'none',
    );
    Object.assign(inquiry, { answer, answeredAt: simulation.time });
    simulation.count('inquiries');
  }

  async function askUntilFinal(known: Issued, random: Random): Promise<void> {
    while (known.script.asksAgain && !known.asked.some(isFinal)) {
      const patienceMs = random.below(2) === 0 ? PATIENCE_IN_THE_QUIET_MS : 0;
      pay(known, { ...LATE_REQUEST, patienceMs }, random.below(processes.size), random);
      await simulation.wait(ASK_AGAIN_EVERY_MS, processes.clients);
    }
  }

  return {
    issued,
    /** The client that the next key is for: so keys keep their names. */
    askingForKey: () => askingForKey,
    begin() {
      for (const script of plan.scripts) simulation.after(script.at, processes.clients, () => issue(script));
    },
    /** The faults have ended: a client that asks again does so until the answer is final. */
    askAgain() {
      isFaulty = false;
      for (const known of issued) askUntilFinal(known, simulation.stream(`quiet client ${known.key}`));
    },
    /** Hours later: some repeat their payment, whose row may be removed by then. */
    comeBack() {
      for (const known of issued) {
        const random = simulation.stream(`late client ${known.key} at ${simulation.time}`);
        if (random.below(4) > 0) continue;
        const send = () => pay(known, LATE_REQUEST, random.below(processes.size), random);
        simulation.after(random.below(REPEAT_WITHIN_MS), processes.clients, send);
      }
    },
    haveTheirAnswers: () =>
      issued.every(({ asked, inquiries, script }) => {
        const isAnswered = [...asked, ...inquiries].every(({ answer }) => answer !== undefined);
        return isAnswered && (!script.asksAgain || asked.some(isFinal));
      }),
  };
}

/** After such an answer the client does not ask again. */
export const isFinal = ({ answer }: Asked) =>
  typeof answer === 'object' && ['processed', 'replayed', 'invalid key', 'mismatch'].includes(answer.state);

export function describe(answer: PayAnswer | NoAnswer): string {
  if (typeof answer === 'string') return answer;
  return 'final' in answer ? `${answer.state} ${describeOutcome(answer.final)}` : answer.state;
}

export const describeOutcome = ({ outcome }: FinalOutcome) =>
  outcome.state === 'COMPLETED' ? outcome.transactionId : `declined (${outcome.reason})`;
