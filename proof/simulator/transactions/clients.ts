import { transactionTag } from '#idempay/transactions/representation.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionList, Transactions } from '#idempay/transactions/transactions.js';
import type { Random } from '../../../testkit/random.js';
import { isNoAnswer, type NoAnswer, type Processes } from '../processes.js';
import { hashOf, type Simulation } from '../simulation.js';
import type { Action, ClientScript, TransactionPlan } from './plan.js';
import { ACCOUNTS, type Asked, type AskedForList, type Created, FILTERS, type ListAnswer } from './requests.js';

/** What one client remembers. */
interface Memory {
  own: number | undefined;
  readonly seen: Map<number, Transaction>;
  readonly listTags: Map<number, string>;
}

/** A request that is on its way, with the answer that is to be put into it. */
type Open<Answer> = { answeredAt: number | undefined; answer: Answer | NoAnswer | undefined };

export class TransactionClients {
  readonly asked: Asked[] = [];
  readonly lists: AskedForList[] = [];
  readonly created: Created[] = [];
  private unanswered = 0;
  private busy = 0;

  constructor(
    private readonly simulation: Simulation,
    private readonly processes: Processes<Transactions>,
    private readonly plan: TransactionPlan,
    private readonly hot: readonly Transaction[],
  ) {}

  begin(): void {
    const { simulation, processes } = this;
    for (const script of this.plan.scripts) {
      const memory: Memory = { own: undefined, seen: new Map(), listTags: new Map() };
      const first = script.actions[0];
      if (!first) continue;
      this.busy += 1;
      simulation.after(first.at, processes.clients, () => this.act(script, 0, memory));
    }
  }

  haveTheirAnswers(): boolean {
    return this.busy === 0 && this.unanswered === 0;
  }

  /** When all is quiet: every transaction that anybody asked for, at every instance. */
  readEverything(): void {
    const random = this.simulation.stream('the last look');
    for (const id of new Set(this.asked.map((asked) => asked.id))) {
      for (let instance = 0; instance < this.processes.size; instance += 1) this.get(id, instance, random, () => {});
    }
  }

  private act(script: ClientScript, index: number, memory: Memory): void {
    const action = script.actions[index];
    if (!action) {
      this.busy -= 1;
      return;
    }
    const { simulation, processes } = this;
    const random = simulation.rng(hashOf(`client ${script.number}`));
    this.carryOut(action, memory, random, () => {
      const next = script.actions[index + 1]?.at ?? 0;
      simulation.after(next - simulation.time, processes.clients, () => this.act(script, index + 1, memory));
    });
  }

  private carryOut(action: Action, memory: Memory, random: Random, done: () => void): void {
    const { instance } = action;
    const id = action.target === 'own' ? (memory.own ?? this.hotId(0)) : this.hotId(action.target);
    const onlyFrom = action.conditional ? memory.seen.get(id) : undefined;
    switch (action.kind) {
      case 'get':
        this.get(id, instance, random, (transaction) => {
          if (transaction) memory.seen.set(id, transaction);
          done();
        });
        break;
      case 'change':
        this.change(id, action, onlyFrom, random, (transaction) => {
          if (transaction) memory.seen.set(id, transaction);
          done();
        });
        break;
      case 'remove':
        this.remove(id, instance, onlyFrom, random, done);
        break;
      case 'list':
        this.list(action, memory, random, done);
        break;
      case 'create':
        this.create(action, random, (transaction) => {
          if (transaction) {
            memory.own = transaction.id;
            memory.seen.set(transaction.id, transaction);
          }
          done();
        });
        break;
    }
  }

  private hotId(target: number): number {
    return (this.hot[target] as Transaction).id;
  }

  private get(id: number, instance: number, random: Random, heard: (seen: Transaction | undefined) => void): void {
    const asked: Asked = { kind: 'get', id, ...this.sent() };
    this.asked.push(asked);
    this.ask(
      instance,
      random,
      `get ${id}`,
      async (transactions) => {
        const { transaction, cache } = await transactions.get(id);
        this.simulation.count(cache === 'hit' ? 'hits' : 'misses');
        return transaction ?? ('not found' as const);
      },
      asked,
      (answer) => heard(isNoAnswer(answer) || answer === 'not found' ? undefined : answer),
      (answer) => (answer === 'not found' ? answer : `${answer.status} (${answer.version})`),
    );
  }

  private change(
    id: number,
    { status, instance }: Action,
    seen: Transaction | undefined,
    random: Random,
    heard: (written: Transaction | undefined) => void,
  ): void {
    const asked: Asked = { kind: 'change', id, status, onlyFrom: seen?.status, ...this.sent() };
    this.asked.push(asked);
    this.ask(
      instance,
      random,
      `set ${status} on ${id}${seen ? ` if it is ${seen.status}` : ''}`,
      (transactions) => transactions.changeStatus(id, status, conditionOf(seen)),
      asked,
      (answer) => heard(!isNoAnswer(answer) && answer.state === 'done' ? answer.transaction : undefined),
      (answer) => (answer.state === 'done' ? `done (${answer.transaction.version})` : answer.state),
    );
  }

  private remove(id: number, instance: number, seen: Transaction | undefined, random: Random, heard: () => void): void {
    const asked: Asked = { kind: 'remove', id, onlyFrom: seen?.status, ...this.sent() };
    this.asked.push(asked);
    const remove = (transactions: Transactions) => transactions.remove(id, conditionOf(seen));
    this.ask(instance, random, `remove ${id}`, remove, asked, heard, String);
  }

  private create({ accounts, instance }: Action, random: Random, heard: (row: Transaction | undefined) => void): void {
    const [fromAccount, toAccount] = ACCOUNTS[accounts] as readonly [string, string];
    const created: Created = { from: fromAccount, ...this.sent() };
    this.created.push(created);
    this.ask(
      instance,
      random,
      'create a transaction',
      (transactions) => transactions.create({ fromAccount, toAccount, amount: '10.5', status: 'PENDING' }),
      created,
      (answer) => heard(isNoAnswer(answer) ? undefined : answer),
      (answer) => String(answer.id),
    );
  }

  private list({ accounts, conditional, instance }: Action, memory: Memory, random: Random, heard: () => void): void {
    const filter = FILTERS[accounts] as (typeof FILTERS)[number];
    const ifNoneMatch = conditional ? memory.listTags.get(accounts) : undefined;
    const asked: AskedForList = { filter, ifNoneMatch, ...this.sent() };
    this.lists.push(asked);
    const condition = ifNoneMatch === undefined ? undefined : (tag: string) => tag === ifNoneMatch;
    this.ask(
      instance,
      random,
      `list ${JSON.stringify(filter)}${ifNoneMatch ? ' if it changed' : ''}`,
      async (transactions) => readAll(await transactions.list(filter, condition)),
      asked,
      (answer) => {
        if (!isNoAnswer(answer)) memory.listTags.set(accounts, answer.tag);
        heard();
      },
      ({ rows }) => rows?.map(({ id, version }) => `${id} (${version})`).join(' ') ?? 'not modified',
    );
  }

  private sent() {
    return { sentAt: this.simulation.time, answeredAt: undefined, answer: undefined };
  }

  private ask<Answer>(
    instance: number,
    random: Random,
    what: string,
    work: (transactions: Transactions) => Promise<Answer>,
    asked: Open<Answer>,
    heard: (answer: Answer | NoAnswer) => void,
    describe: (answer: Answer) => string,
  ): void {
    const { simulation, processes } = this;
    this.unanswered += 1;
    processes.call(instance, random, what, work, (answer) => {
      this.unanswered -= 1;
      asked.answer = answer;
      asked.answeredAt = simulation.time;
      const text = isNoAnswer(answer) ? (answer as NoAnswer) : describe(answer);
      simulation.witness(text);
      simulation.note(simulation.tracing ? `a client that asked to ${what} hears: ${text}` : '');
      simulation.count(isNoAnswer(answer) ? `answers: ${answer}` : `answers: ${what.slice(0, what.indexOf(' '))}`);
      heard(answer);
    });
  }
}

function conditionOf(seen: Transaction | undefined): ((tag: string) => boolean) | undefined {
  if (!seen) return undefined;
  const known = transactionTag(seen, seen.status);
  return (tag) => tag === known;
}

async function readAll(list: TransactionList): Promise<ListAnswer> {
  if (list.state === 'not modified') return { tag: list.tag, rows: undefined };
  const rows: Transaction[] = [];
  for (;;) {
    const page = await list.pages.next();
    rows.push(...page.rows);
    if (page.last) break;
  }
  list.pages.close();
  return { tag: list.tag, rows };
}
