import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Random } from '../../../testkit/random.js';
import type { Fleet } from '../fleet.js';
import type { Simulation } from '../simulation.js';
import type { KeyScript, PaymentPlan, PlannedRequest } from './plan.js';
import { type Answer, type Asked, describe, type Inquiry, type Issued, isFinal } from './requests.js';
import type { PaymentRows } from './rows.js';

const ASK_AGAIN_EVERY_MS = 5_000;
/** Whoever asks again when the trouble is over often waits. */
const PATIENCE_IN_THE_QUIET_MS = 8_000;
const REPEAT_WITHIN_MS = 3_000;

export function keyOf(script: number): string {
  return `k${script}`;
}

/** The payers: each has one key, pays with it in several ways, and knows only what it is told. */
export class PaymentClients {
  readonly issued: Issued[] = [];
  /** The key that the next `issueKey` gives: whoever asks says so, so that keys keep their names. */
  keyOfWhoeverAsks = '';
  private troubled = true;

  constructor(
    private readonly simulation: Simulation,
    private readonly fleet: Fleet<PaymentArea>,
    private readonly rows: PaymentRows,
    private readonly plan: PaymentPlan,
  ) {}

  begin(): void {
    const { simulation, fleet } = this;
    for (const script of this.plan.scripts) {
      const random = simulation.stream(`client ${script.number}`);
      simulation.after(script.at, fleet.clients, () => this.issue(script, random));
    }
  }

  /** Trouble has ended: who asks again does so until the answer is final. */
  askAgain(): void {
    this.troubled = false;
    for (const known of this.issued) {
      if (known.script.asksAgain) this.askOnceMore(known, this.simulation.stream(`quiet client ${known.key}`));
    }
  }

  haveTheirAnswers(): boolean {
    return this.issued.every(
      ({ asked, inquiries, script }) =>
        asked.every(({ answer }) => answer !== undefined) &&
        inquiries.every(({ answer }) => answer !== undefined) &&
        (!script.asksAgain || asked.some(({ answer }) => isFinal(answer))),
    );
  }

  private issue(script: KeyScript, random: Random): void {
    const { simulation, fleet } = this;
    const askedForAt = simulation.time;
    fleet.call(
      script.instance,
      random,
      'issue a key',
      ({ payments }) => {
        this.keyOfWhoeverAsks = keyOf(script.number);
        return payments.issueKey();
      },
      (key) => {
        if (key === 'cut' || key === 'refused unchanged' || key === 'refused unknown') return;
        simulation.count('keys issued');
        const known: Issued = { key, script, askedForAt, issuedAt: simulation.time, asked: [], inquiries: [] };
        this.issued.push(known);
        for (const request of script.requests) {
          const luck = simulation.stream(`request ${request.number} of ${key}`);
          simulation.after(request.afterMs, fleet.clients, () => this.send(known, request, luck));
        }
        if (!this.troubled && script.asksAgain) this.askOnceMore(known, random);
      },
    );
  }

  private send(known: Issued, request: PlannedRequest, random: Random): void {
    if (request.kind === 'ask for the outcome') this.inquire(known, request, random);
    else this.pay(known, request, request.instance, request.repeats, random);
  }

  private pay(known: Issued, request: PlannedRequest, instance: number, repeats: number, random: Random): void {
    const { simulation, fleet } = this;
    const amount = request.otherAmount ?? known.script.amount;
    const asked: Asked = {
      kind: request.kind,
      amount,
      patienceMs: request.patienceMs,
      sentAt: simulation.time,
      knownAtSend: this.isKnown(known.key),
      pausedMsAtSend: fleet.pausedMs(instance),
      pausedMsAtAnswer: 0,
      answeredAt: undefined,
      answer: undefined,
    };
    known.asked.push(asked);
    const money = request.kind === 'pay' ? { amount, currency: 'EUR' } : { problem: 'this is no amount' };
    const patience =
      request.patienceMs > 0 ? { ms: request.patienceMs, gone: new AbortController().signal } : undefined;
    fleet.call(
      instance,
      random,
      simulation.tracing ? `${request.kind} ${amount} with ${known.key}` : '',
      ({ payments }) => payments.pay(known.key, money, patience),
      (answer) => {
        asked.answer = answer;
        asked.answeredAt = simulation.time;
        asked.pausedMsAtAnswer = fleet.pausedMs(instance);
        this.hear(known.key, answer);
        if (isFinal(answer) || repeats === 0 || !this.troubled) return;
        const next = random.below(fleet.size);
        const repeat = () => this.pay(known, request, next, repeats - 1, random);
        simulation.after(random.below(REPEAT_WITHIN_MS), fleet.clients, repeat);
      },
    );
  }

  private inquire(known: Issued, request: PlannedRequest, random: Random): void {
    const { simulation, fleet } = this;
    const row = this.rows.byKey.get(known.key);
    const inquiry: Inquiry = {
      sentAt: simulation.time,
      finalAtSend: row?.finalAt !== undefined,
      answeredAt: undefined,
      answer: undefined,
    };
    known.inquiries.push(inquiry);
    fleet.call(
      request.instance,
      random,
      simulation.tracing ? `tell the outcome of ${known.key}` : '',
      ({ payments }) => payments.outcome(known.key).then((final) => final ?? 'none'),
      (answer) => {
        inquiry.answer = answer;
        inquiry.answeredAt = simulation.time;
        simulation.count('inquiries');
      },
    );
  }

  private askOnceMore(known: Issued, random: Random): void {
    const { simulation, fleet } = this;
    if (known.asked.some(({ answer }) => isFinal(answer))) return;
    const patienceMs = random.below(2) === 0 ? PATIENCE_IN_THE_QUIET_MS : 0;
    const request = {
      number: -1,
      kind: 'pay',
      afterMs: 0,
      instance: 0,
      otherAmount: undefined,
      patienceMs,
      repeats: 0,
    } as const;
    this.pay(known, request, random.below(fleet.size), 0, random);
    simulation.after(ASK_AGAIN_EVERY_MS, fleet.clients, () => this.askOnceMore(known, random));
  }

  private hear(key: string, answer: Answer): void {
    const { simulation } = this;
    const text = describe(answer);
    simulation.witness(text);
    simulation.note(simulation.tracing ? `the client of ${key} hears: ${text}` : '');
    simulation.count(typeof answer === 'string' ? `answers: ${answer}` : `answers: ${answer.state}`);
    if (typeof answer === 'object' && answer.waited) simulation.count('answers after a wait');
  }

  /** By the row: its key is no longer one that nobody knows. */
  private isKnown(key: string): boolean {
    const row = this.rows.byKey.get(key);
    return row !== undefined && (row.expiresAt === undefined || row.expiresAt > this.rows.now());
  }
}
