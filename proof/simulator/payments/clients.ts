import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Random } from '../../../testkit/random.js';
import { isNoAnswer, type Processes } from '../processes.js';
import type { Simulation } from '../simulation.js';
import { nameOf } from './keys.js';
import type { ObservedPayments } from './observed-payments.js';
import type { KeyScript, PaymentPlan, PlannedRequest } from './plan.js';
import { type Answer, type Asked, describe, type Inquiry, type Issued, isFinal } from './requests.js';

const ASK_AGAIN_EVERY_MS = 5_000;
/** A client that asks again when the faults are over often waits. */
const PATIENCE_IN_THE_QUIET_MS = 8_000;
const REPEAT_WITHIN_MS = 3_000;

/** As a request of a plan. */
const LATE_REQUEST: PlannedRequest = { number: -1, kind: 'pay', afterMs: 0, instance: 0, patienceMs: 0, repeats: 0 };

/** The payers: each has one key, pays with it in several ways, and knows only its answers. */
export class PaymentClients {
  readonly issued: Issued[] = [];
  /** Each client's key, by its name. */
  readonly keys = new Map<string, string>();
  /** The client that the next key is for: so keys keep their names. */
  askingForKey = 0;
  private faulty = true;

  constructor(
    private readonly simulation: Simulation,
    private readonly processes: Processes<PaymentArea>,
    private readonly rows: ObservedPayments,
    private readonly plan: PaymentPlan,
  ) {}

  begin(): void {
    const { simulation, processes } = this;
    for (const script of this.plan.scripts) {
      const random = simulation.stream(`client ${script.number}`);
      simulation.after(script.at, processes.clients, () => this.issue(script, random));
    }
  }

  /** The faults have ended: a client that asks again does so until the answer is final. */
  askAgain(): void {
    this.faulty = false;
    for (const known of this.issued) {
      if (known.script.asksAgain) this.askOnceMore(known, this.simulation.stream(`quiet client ${known.key}`));
    }
  }

  /** Hours later: some repeat their payment, whose row may be removed by then. */
  comeBack(): void {
    for (const known of this.issued) {
      const random = this.simulation.stream(`late client ${known.key} at ${this.simulation.time}`);
      if (random.below(4) > 0) continue;
      const send = () => this.pay(known, LATE_REQUEST, random.below(this.processes.size), 0, random);
      this.simulation.after(random.below(REPEAT_WITHIN_MS), this.processes.clients, send);
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
    const { simulation, processes } = this;
    const askedForAt = simulation.time;
    processes.call(
      script.instance,
      random,
      'issue a key',
      ({ payments }) => {
        this.askingForKey = script.number;
        return payments.issueKey();
      },
      (issued) => {
        if (isNoAnswer(issued)) return;
        simulation.count('keys issued');
        const key = nameOf(issued);
        this.keys.set(key, issued);
        const known: Issued = { key, script, askedForAt, issuedAt: simulation.time, asked: [], inquiries: [] };
        this.issued.push(known);
        for (const request of script.requests) {
          const random = simulation.stream(`request ${request.number} of ${key}`);
          simulation.after(request.afterMs, processes.clients, () => this.send(known, request, random));
        }
        if (!this.faulty && script.asksAgain) this.askOnceMore(known, random);
      },
    );
  }

  private send(known: Issued, request: PlannedRequest, random: Random): void {
    if (request.kind === 'ask for the outcome') this.inquire(known, request, random);
    else this.pay(known, request, request.instance, request.repeats, random);
  }

  private pay(known: Issued, request: PlannedRequest, instance: number, repeats: number, random: Random): void {
    const { simulation, processes } = this;
    const amount = request.otherAmount ?? known.script.amount;
    const asked: Asked = {
      kind: request.kind,
      amount,
      patienceMs: request.patienceMs,
      sentAt: simulation.time,
      knownAtSend: this.isKnown(known.key),
      pausedMsAtSend: processes.pausedMs(instance),
      pausedMsAtAnswer: 0,
      answeredAt: undefined,
      answer: undefined,
    };
    known.asked.push(asked);
    const money = request.kind === 'pay' ? { amount, currency: 'EUR' } : { problem: 'this is no amount' };
    const patience =
      request.patienceMs > 0 ? { ms: request.patienceMs, gone: new AbortController().signal } : undefined;
    processes.call(
      instance,
      random,
      simulation.tracing ? `${request.kind} ${amount} with ${known.key}` : '',
      ({ payments }) => payments.pay(this.keyOf(known), money, patience),
      (answer) => {
        asked.answer = answer;
        asked.answeredAt = simulation.time;
        asked.pausedMsAtAnswer = processes.pausedMs(instance);
        this.hear(known.key, answer);
        if (isFinal(answer) || repeats === 0 || !this.faulty) return;
        const next = random.below(processes.size);
        const repeat = () => this.pay(known, request, next, repeats - 1, random);
        simulation.after(random.below(REPEAT_WITHIN_MS), processes.clients, repeat);
      },
    );
  }

  private inquire(known: Issued, request: PlannedRequest, random: Random): void {
    const { simulation, processes } = this;
    const row = this.rows.byKey.get(known.key);
    const inquiry: Inquiry = {
      sentAt: simulation.time,
      finalAtSend: row?.finalAt !== undefined,
      answeredAt: undefined,
      answer: undefined,
    };
    known.inquiries.push(inquiry);
    processes.call(
      request.instance,
      random,
      simulation.tracing ? `tell the outcome of ${known.key}` : '',
      ({ payments }) => payments.outcome(this.keyOf(known)).then((final) => final ?? 'none'),
      (answer) => {
        inquiry.answer = answer;
        inquiry.answeredAt = simulation.time;
        simulation.count('inquiries');
      },
    );
  }

  private askOnceMore(known: Issued, random: Random): void {
    const { simulation, processes } = this;
    if (known.asked.some(({ answer }) => isFinal(answer))) return;
    const patienceMs = random.below(2) === 0 ? PATIENCE_IN_THE_QUIET_MS : 0;
    const request = { ...LATE_REQUEST, patienceMs };
    this.pay(known, request, random.below(processes.size), 0, random);
    simulation.after(ASK_AGAIN_EVERY_MS, processes.clients, () => this.askOnceMore(known, random));
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
    return row !== undefined && (row.expiresAt === undefined || row.expiresAt > this.simulation.time);
  }

  private keyOf({ key }: Issued): string {
    return this.keys.get(key) as string;
  }
}
