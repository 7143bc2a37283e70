import type { ListHistory } from '../checkers/list-rules.js';
import type { KeyHistory, Violation } from '../checkers/payment-evidence.js';
import type { SharedListHistory } from '../checkers/shared-list-rules.js';
import type { TransactionHistory } from '../checkers/transaction-rules.js';
import type { Answer, Ask } from '../client/http-pool.js';
import type { SupervisedService } from '../processes/supervised-service.js';

/** A client that waits longer goes away; a later answer reaches nobody. */
const PATIENCE_MS = 2_000;
/** When everything is healed it is asked whether all is there, not how fast a busy machine is. */
export const LAST_PATIENCE_MS = 15_000;
/** After a failure at a process most clients go to the others for so long. */
const AVOIDED_MS = 250;

/** One answer, with what its client knows about when and where. */
export interface Told {
  readonly answer: Answer;
  readonly sentAt: number;
  readonly endedAt: number;
  /** The connection broke although the process was left alone all the while. */
  readonly cutByTheLiving: boolean;
}

/** The clients' own log of a session: every send and every answer, kept outside the system. */
export class ClientLog {
  readonly keys: KeyHistory[] = [];
  readonly transactions: TransactionHistory[] = [];
  readonly lists: ListHistory[] = [];
  readonly sharedLists: SharedListHistory[] = [];
  /** Answers that break a promise by themselves, whatever else was told. */
  readonly violations: Violation[] = [];
  readonly answers = new Map<number, number>();
  requests = 0;
  reads = 0;
  writes = 0;
  notModified = 0;
  /** When the last request was sent that was answered with a new payment. */
  lastPaymentSentAt = Number.NEGATIVE_INFINITY;
  readonly #avoidedUntil = new Map<SupervisedService, number>();

  constructor(readonly services: readonly SupervisedService[]) {}

  /** Whether some process has not just failed somebody. */
  isAnybodyThere(): boolean {
    return this.#healthy().length > 0;
  }

  /** Any process, but rather not one that has just failed somebody. */
  choose(fraction: number): SupervisedService {
    const healthy = this.#healthy();
    const among = healthy.length > 0 ? healthy : this.services;
    return among[Math.floor(fraction * among.length)] as SupervisedService;
  }

  async send(to: SupervisedService, ask: Ask, patienceMs = PATIENCE_MS): Promise<Told> {
    const { disturbed } = to;
    const sentAt = performance.now();
    const answer = await to.pool.ask(ask, patienceMs);
    const endedAt = performance.now();
    this.requests += 1;
    this.answers.set(answer.status, (this.answers.get(answer.status) ?? 0) + 1);
    if (answer.status === 0) this.#avoidedUntil.set(to, endedAt + AVOIDED_MS);
    const cutByTheLiving = answer.failure === 'cut' && to.disturbed === disturbed && !(await endsSoon(to, disturbed));
    return { answer, sentAt, endedAt, cutByTheLiving };
  }

  #healthy(): SupervisedService[] {
    const now = performance.now();
    return this.services.filter((service) => (this.#avoidedUntil.get(service) ?? 0) < now);
  }

  violated(rule: string, subject: string, what: string, journal: readonly unknown[] = []): void {
    this.violations.push({ rule, subject, what, journal });
  }
}

/** The end of a process that kills itself is told a moment after its connections broke. */
async function endsSoon(service: SupervisedService, disturbed: number): Promise<boolean> {
  const deadline = performance.now() + 1_000;
  while (service.disturbed === disturbed && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return service.disturbed !== disturbed;
}
