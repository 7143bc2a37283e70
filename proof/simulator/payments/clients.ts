import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Random } from '../../../testkit/random.js';
import type { ObservedPayments } from '../observed.js';
import { isNoAnswer, type Processes } from '../processes.js';
import type { Simulation } from '../simulation.js';
import { nameOf } from './keys.js';
import type { KeyScript, PaymentPlan, PlannedRequest } from './plan.js';
import { type Asked, describe, type Issued, isFinal } from './requests.js';

const ASK_AGAIN_EVERY_MS = 5_000;
/** A client that asks again when the faults are over often waits. */
const PATIENCE_IN_THE_QUIET_MS = 8_000;
const REPEAT_WITHIN_MS = 3_000;

/** As a request of a plan. */
const LATE_REQUEST = { kind: 'pay', otherAmount: undefined, patienceMs: 0, repeats: 0 } as const;

type Paid = Pick<PlannedRequest, 'kind' | 'otherAmount' | 'patienceMs' | 'repeats'>;

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
    for (const script of this.plan.scripts) simulation.after(script.at, processes.clients, () => this.issue(script));
  }

  /** The faults have ended: a client that asks again does so until the answer is final. */
  askAgain(): void {
    this.faulty = false;
    for (const known of this.issued) this.askUntilFinal(known, this.simulation.stream(`quiet client ${known.key}`));
  }

  /** Hours later: some repeat their payment, whose row may be removed by then. */
  comeBack(): void {
    for (const known of this.issued) {
      const random = this.simulation.stream(`late client ${known.key} at ${this.simulation.time}`);
      if (random.below(4) > 0) continue;
      const send = () => this.pay(known, LATE_REQUEST, random.below(this.processes.size), random);
      this.simulation.after(random.below(REPEAT_WITHIN_MS), this.processes.clients, send);
    }
  }

  haveTheirAnswers(): boolean {
    return this.issued.every(
      ({ asked, inquiries, script }) =>
        [...asked, ...inquiries].every(({ answer }) => answer !== undefined) &&
        (!script.asksAgain || asked.some(isFinal)),
    );
  }

  private async issue(script: KeyScript): Promise<void> {
    const { simulation, processes } = this;
    const random = simulation.stream(`client ${script.number}`);
    const askedForAt = simulation.time;
    const issued = await processes.call(script.instance, random, 'issue a key', ({ payments }) => {
      this.askingForKey = script.number;
      return payments.issueKey();
    });
    if (isNoAnswer(issued)) return;
    simulation.count('keys issued');
    const key = nameOf(issued);
    this.keys.set(key, issued);
    const known: Issued = { key, script, askedForAt, asked: [], inquiries: [] };
    this.issued.push(known);
    for (const request of script.requests) {
      const own = simulation.stream(`request ${request.number} of ${key}`);
      const pay = () => this.pay(known, request, request.instance, own);
      const send = request.kind === 'ask for the outcome' ? () => this.inquire(known, request, own) : pay;
      simulation.after(request.afterMs, processes.clients, send);
    }
    if (!this.faulty) await this.askUntilFinal(known, random);
  }

  private async pay(known: Issued, request: Paid, first: number, random: Random): Promise<void> {
    const { simulation, processes } = this;
    const { key, script } = known;
    const { kind, patienceMs, otherAmount: amount = script.amount } = request;
    const money = kind === 'pay' ? { amount, currency: 'EUR' } : { problem: 'this is no amount' };
    const patience = patienceMs > 0 ? { ms: patienceMs, gone: new AbortController().signal } : undefined;
    let instance = first;
    for (let { repeats } = request; ; repeats -= 1) {
      const asked: Asked = { kind, amount, patienceMs, sentAt: simulation.time, knownAtSend: this.isKnown(key) };
      known.asked.push(asked);
      const pausedMs = processes.pausedMs(instance);
      const answer = await processes.call(instance, random, `${kind} ${amount} with ${key}`, ({ payments }) =>
        payments.pay(this.keys.get(key) as string, money, patience),
      );
      const stoppedMs = processes.pausedMs(instance) - pausedMs;
      Object.assign(asked, { answer, answeredAt: simulation.time, stoppedMs });
      simulation.witness(describe(answer));
      simulation.note(`the client of ${key} hears: ${describe(answer)}`);
      simulation.count(`answers: ${typeof answer === 'string' ? answer : answer.state}`);
      if (typeof answer === 'object' && answer.waited) simulation.count('answers after a wait');
      if (isFinal(asked) || repeats === 0 || !this.faulty) return;
      instance = random.below(processes.size);
      await simulation.wait(random.below(REPEAT_WITHIN_MS), processes.clients);
    }
  }

  private async inquire({ key, inquiries }: Issued, { instance }: PlannedRequest, random: Random): Promise<void> {
    const { simulation, processes } = this;
    const inquiry = { sentAt: simulation.time, finalAtSend: this.rows.byKey.get(key)?.finalAt !== undefined };
    inquiries.push(inquiry);
    const answer = await processes.call(instance, random, `tell the outcome of ${key}`, ({ payments }) =>
      payments.outcome(this.keys.get(key) as string).then((final) => final ?? 'none'),
    );
    Object.assign(inquiry, { answer, answeredAt: simulation.time });
    simulation.count('inquiries');
  }

  private async askUntilFinal(known: Issued, random: Random): Promise<void> {
    const { clients, size } = this.processes;
    while (known.script.asksAgain && !known.asked.some(isFinal)) {
      const patienceMs = random.below(2) === 0 ? PATIENCE_IN_THE_QUIET_MS : 0;
      this.pay(known, { ...LATE_REQUEST, patienceMs }, random.below(size), random);
      await this.simulation.wait(ASK_AGAIN_EVERY_MS, clients);
    }
  }

  /** By the row: its key is no longer one that nobody knows. */
  private isKnown(key: string): boolean {
    const row = this.rows.byKey.get(key);
    return row !== undefined && (row.expiresAt ?? Infinity) > this.simulation.time;
  }
}
