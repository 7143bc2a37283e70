import { transactionTag } from '#idempay/transactions/representation.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionList, Transactions } from '#idempay/transactions/transactions.js';
import type { Random } from '../../../testkit/random.js';
import { isNoAnswer, type Processes, type Request } from '../processes.js';
import type { Simulation } from '../simulation.js';
import type { Action, ClientScript, TransactionPlan } from './plan.js';
import { type Asked, type AskedForList, accountsOf, FILTERS, type ListAnswer } from './requests.js';

/** What one client remembers. */
interface Memory {
  own: number | undefined;
  readonly seen: Map<number, Transaction>;
  readonly listTags: Map<number, string>;
}

export class TransactionClients {
  readonly asked: Asked[] = [];
  readonly lists: AskedForList[] = [];
  readonly created: Request<Transaction>[] = [];
  private unanswered = 0;
  private busy = 0;

  constructor(
    private readonly simulation: Simulation,
    private readonly processes: Processes<Transactions>,
    private readonly plan: TransactionPlan,
    private readonly hot: readonly Transaction[],
  ) {}

  begin(): void {
    for (const script of this.plan.scripts) this.act(script);
  }

  haveTheirAnswers(): boolean {
    return this.busy === 0 && this.unanswered === 0;
  }

  /** When all is quiet: every transaction that anybody asked for, at every instance. */
  readEverything(): void {
    const random = this.simulation.stream('the last look');
    for (const id of new Set(this.asked.map((asked) => asked.id))) {
      for (const instance of this.processes.indexes) this.get(id, instance, random);
    }
  }

  private async act({ number, actions }: ClientScript): Promise<void> {
    const { simulation, processes } = this;
    const memory: Memory = { own: undefined, seen: new Map(), listTags: new Map() };
    this.busy += 1;
    for (const action of actions) {
      await simulation.wait(action.at - simulation.time, processes.clients);
      await this.carryOut(action, memory, simulation.rng(`client ${number}`));
    }
    // A step of its own, so that each seed has the digest that it always had.
    await simulation.wait(0, processes.clients);
    this.busy -= 1;
  }

  private async carryOut(action: Action, memory: Memory, random: Random): Promise<void> {
    const { kind, instance, target, conditional } = action;
    const id = (target === 'own' && memory.own) || this.hotId(target === 'own' ? 0 : target);
    const onlyFrom = conditional ? memory.seen.get(id) : undefined;
    if (kind === 'list') await this.list(action, memory, random);
    if (kind === 'remove') await this.remove(id, instance, onlyFrom, random);
    let seen: Transaction | undefined;
    if (kind === 'get') seen = await this.get(id, instance, random);
    if (kind === 'change') seen = await this.change(id, action, onlyFrom, random);
    if (kind === 'create') seen = await this.create(action, random);
    if (seen && kind === 'create') memory.own = seen.id;
    if (seen) memory.seen.set(seen.id, seen);
  }

  private hotId(target: number): number {
    return (this.hot[target] as Transaction).id;
  }

  private async get(id: number, instance: number, random: Random): Promise<Transaction | undefined> {
    const read = async (transactions: Transactions) => {
      const { transaction, cache } = await transactions.get(id);
      this.simulation.count(cache === 'hit' ? 'hits' : 'misses');
      return transaction ?? ('not found' as const);
    };
    const asked: Asked = { kind: 'get', id, sentAt: this.simulation.time };
    this.asked.push(asked);
    const answer = await this.ask(asked, instance, random, `get ${id}`, read, (found) =>
      found === 'not found' ? found : `${found.status} (${found.version})`,
    );
    return answer === 'not found' ? undefined : answer;
  }

  private async change(id: number, { status, instance }: Action, seen: Transaction | undefined, random: Random) {
    const change = (transactions: Transactions) => transactions.changeStatus(id, status, conditionOf(seen));
    const asked: Asked = { kind: 'change', id, status, onlyFrom: seen?.status, sentAt: this.simulation.time };
    this.asked.push(asked);
    const what = `set ${status} on ${id}${seen ? ` if it is ${seen.status}` : ''}`;
    const answer = await this.ask(asked, instance, random, what, change, (changed) =>
      changed.state === 'done' ? `done (${changed.transaction.version})` : changed.state,
    );
    return answer?.state === 'done' ? answer.transaction : undefined;
  }

  private remove(id: number, instance: number, seen: Transaction | undefined, random: Random) {
    const remove = (transactions: Transactions) => transactions.remove(id, conditionOf(seen));
    const asked: Asked = { kind: 'remove', id, onlyFrom: seen?.status, sentAt: this.simulation.time };
    this.asked.push(asked);
    return this.ask(asked, instance, random, `remove ${id}`, remove, String);
  }

  private create({ accounts, instance }: Action, random: Random) {
    const transaction = { ...accountsOf(accounts), amount: '10.5', status: 'PENDING' } as const;
    const create = (transactions: Transactions) => transactions.create(transaction);
    const created: Request<Transaction> = { sentAt: this.simulation.time };
    this.created.push(created);
    return this.ask(created, instance, random, 'create a transaction', create, ({ id }) => String(id));
  }

  private async list({ accounts, conditional, instance }: Action, { listTags }: Memory, random: Random) {
    const filter = FILTERS[accounts] ?? FILTERS[0];
    const ifNoneMatch = conditional ? listTags.get(accounts) : undefined;
    const condition = ifNoneMatch === undefined ? undefined : (tag: string) => tag === ifNoneMatch;
    const read = async (transactions: Transactions) => readAll(await transactions.list(filter, condition));
    const asked: AskedForList = { filter, ifNoneMatch, sentAt: this.simulation.time };
    this.lists.push(asked);
    const what = `list ${JSON.stringify(filter)}${ifNoneMatch ? ' if it changed' : ''}`;
    const answer = await this.ask(asked, instance, random, what, read, ({ rows }) =>
      rows ? rows.map(({ id, version }) => `${id} (${version})`).join(' ') : 'not modified',
    );
    if (answer) listTags.set(accounts, answer.tag);
  }

  private async ask<Answer>(
    asked: Request<Answer>,
    instance: number,
    random: Random,
    what: string,
    work: (transactions: Transactions) => Promise<Answer>,
    describe: (answer: Answer) => string,
  ): Promise<Answer | undefined> {
    const { simulation, processes } = this;
    this.unanswered += 1;
    const answer = await processes.call(instance, random, what, work);
    this.unanswered -= 1;
    Object.assign(asked, { answer, answeredAt: simulation.time });
    const text = isNoAnswer(answer) ? String(answer) : describe(answer);
    simulation.witness(text);
    simulation.note(`a client that asked to ${what} hears: ${text}`);
    simulation.count(`answers: ${isNoAnswer(answer) ? answer : what.split(' ', 1)}`);
    return isNoAnswer(answer) ? undefined : answer;
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
