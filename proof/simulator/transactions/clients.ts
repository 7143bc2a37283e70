import type { StatusChangeResult } from '#idempay/transactions/ports/transaction-store.js';
import { transactionTag } from '#idempay/transactions/representation.js';
import type { Transaction, TransactionFilter, TransactionStatus } from '#idempay/transactions/transaction.js';
import type { TransactionList, Transactions } from '#idempay/transactions/transactions.js';
import type { Random } from '../../../testkit/random.js';
import { isNoAnswer, type Request } from '../processes.js';
import type { World } from '../world.js';
import type { Action, ClientScript, TransactionPlan } from './plan.js';

interface About<Kind, Answer> extends Request<Answer> {
  readonly kind: Kind;
  readonly id: number;
  /** The status that the client saw, if the request has an If-Match. */
  readonly onlyFrom?: TransactionStatus | undefined;
}

export type Asked =
  | About<'get', Transaction | 'not found'>
  | (About<'change', StatusChangeResult> & { readonly status: TransactionStatus })
  | About<'remove', 'removed' | 'not found' | 'precondition failed'>;

/** A read of a list; the rows of its answer are undefined if the list was not modified. */
interface AskedForList extends Request<{ readonly tag: string; readonly rows: readonly Transaction[] | undefined }> {
  readonly filter: TransactionFilter;
  readonly ifNoneMatch: string | undefined;
}

/** `since`: when the first request with its key was sent. */
interface AskedToCreate extends Request<Transaction> {
  readonly key: string;
  readonly since: number;
}

/** Requests with one key: without a fault the first one is enough. */
const MOST_CREATES = 4;

/** The filters that lists are asked with; the last one matches nothing. */
const FILTERS = [
  { from: '', to: '' },
  { from: 'A', to: '' },
  { from: '', to: 'C' },
  { from: 'B', to: 'D' },
] as const;
const ACCOUNTS = ['AB', 'AC', 'BC', 'BD'];

export function accountsOf(number: number) {
  const [fromAccount = '', toAccount = ''] = ACCOUNTS[number % ACCOUNTS.length] ?? '';
  return { fromAccount, toAccount };
}

type Way = { readonly instance: number; readonly random: Random };

export function createTransactionClients(world: World<Transactions>, plan: TransactionPlan, hot: Transaction[]) {
  const { simulation, processes } = world;
  const asked: Asked[] = [];
  const lists: AskedForList[] = [];
  const created: AskedToCreate[] = [];
  const keys: string[] = [];
  let [unanswered, busy] = [0, 0];

  /** The answer is put into the request too. */
  async function ask<Answer>(
    request: Request<Answer>,
    { instance, random }: Way,
    what: string,
    work: (transactions: Transactions) => Promise<Answer>,
    describe: (answer: Answer) => string,
  ): Promise<Answer | undefined> {
    unanswered += 1;
    const answer = await processes.call(instance, random, what, work);
    unanswered -= 1;
    Object.assign(request, { answer, answeredAt: simulation.time });
    const text = isNoAnswer(answer) ? String(answer) : describe(answer);
    simulation.witness(text);
    simulation.note(`a client that asked to ${what} hears: ${text}`);
    simulation.count(`answers: ${isNoAnswer(answer) ? answer : what.split(' ', 1)}`);
    return isNoAnswer(answer) ? undefined : answer;
  }

  function noted<All, One extends All>(requests: All[], request: One): One {
    requests.push(request);
    return request;
  }

  async function get(id: number, way: Way): Promise<Transaction | undefined> {
    const request = noted(asked, { kind: 'get' as const, id, sentAt: simulation.time });
    const read = async (transactions: Transactions) => {
      const { transaction, cache } = await transactions.get(id);
      simulation.count(cache === 'hit' ? 'hits' : 'misses');
      return transaction ?? ('not found' as const);
    };
    const answer = await ask(request, way, `get ${id}`, read, (found) =>
      found === 'not found' ? found : `${found.status} (${found.version})`,
    );
    return answer === 'not found' ? undefined : answer;
  }

  async function change(id: number, status: TransactionStatus, seen: Transaction | undefined, way: Way) {
    const change = (transactions: Transactions) => transactions.changeStatus(id, status, conditionOf(seen));
    const request = { kind: 'change', id, status, onlyFrom: seen?.status, sentAt: simulation.time } as const;
    const what = `set ${status} on ${id}${seen ? ` if it is ${seen.status}` : ''}`;
    const answer = await ask(noted(asked, request), way, what, change, (changed) =>
      changed.state === 'done' ? `done (${changed.transaction.version})` : changed.state,
    );
    return answer?.state === 'done' ? answer.transaction : undefined;
  }

  async function remove(id: number, seen: Transaction | undefined, way: Way): Promise<undefined> {
    const remove = (transactions: Transactions) => transactions.remove(id, conditionOf(seen));
    const request = { kind: 'remove', id, onlyFrom: seen?.status, sentAt: simulation.time } as const;
    await ask(noted(asked, request), way, `remove ${id}`, remove, String);
  }

  /** With a key of its own, and an amount by which its row is known; repeated with the key if no answer told the outcome. */
  async function create(accounts: number, { instance, random }: Way): Promise<Transaction | undefined> {
    const key = `create ${keys.length + 1}`;
    const transaction = { ...accountsOf(accounts), amount: `${keys.length + 1}.5`, status: 'PENDING' } as const;
    keys.push(key);
    const once = { client: '', endpoint: 'one', key } as const;
    const create = async (transactions: Transactions) => {
      const result = await transactions.create([transaction], { once });
      if (!('transactions' in result)) throw new Error(`a create with a key of its own is a ${result.state}`);
      simulation.count(`creates: ${result.state}`);
      return result.transactions[0] as Transaction;
    };
    const since = simulation.time;
    for (let repeats = 0; repeats < MOST_CREATES; repeats += 1) {
      const request = noted(created, { key, since, sentAt: simulation.time });
      const way = { instance: (instance + repeats) % plan.shape.instances, random };
      const answer = await ask(request, way, `create a transaction (${key})`, create, ({ id }) => String(id));
      if (answer) return answer;
    }
    return undefined;
  }

  async function list({ accounts, conditional }: Action, tags: Map<number, string>, way: Way): Promise<undefined> {
    const filter = FILTERS[accounts] ?? FILTERS[0];
    const ifNoneMatch = conditional ? tags.get(accounts) : undefined;
    const condition = ifNoneMatch === undefined ? undefined : (tag: string) => tag === ifNoneMatch;
    const read = async (transactions: Transactions) => readAll(await transactions.list(filter, condition));
    const request = noted(lists, { filter, ifNoneMatch, sentAt: simulation.time });
    const what = `list ${JSON.stringify(filter)}${ifNoneMatch ? ' if it changed' : ''}`;
    const answer = await ask(request, way, what, read, ({ rows }) =>
      rows ? rows.map(({ id, version }) => `${id} (${version})`).join(' ') : 'not modified',
    );
    if (answer) tags.set(accounts, answer.tag);
  }

  async function act({ number, actions }: ClientScript): Promise<void> {
    const seen = new Map<number, Transaction>();
    const tags = new Map<number, string>();
    let own = hot[0] as Transaction;
    busy += 1;
    for (const action of actions) {
      await simulation.wait(action.at - simulation.time, processes.clients);
      const way = { instance: action.instance, random: simulation.rng(`client ${number}`) };
      const { id } = action.target === 'own' ? own : (hot[action.target] as Transaction);
      const onlyFrom = action.conditional ? seen.get(id) : undefined;
      const send = {
        list: () => list(action, tags, way),
        remove: () => remove(id, onlyFrom, way),
        get: () => get(id, way),
        change: () => change(id, action.status, onlyFrom, way),
        create: () => create(action.accounts, way),
      }[action.kind];
      const heard = await send();
      if (heard && action.kind === 'create') own = heard;
      if (heard) seen.set(heard.id, heard);
    }
    // A step of its own, so that each seed has the digest that it always had.
    await simulation.wait(0, processes.clients);
    busy -= 1;
  }

  return {
    ...{ asked, lists, created, keys },
    begin() {
      for (const script of plan.scripts) act(script);
    },
    haveTheirAnswers: () => busy === 0 && unanswered === 0,
    /** When all is quiet: every transaction that anybody asked for, at every instance. */
    readEverything() {
      const random = simulation.stream('the last look');
      for (const id of new Set(asked.map((request) => request.id))) {
        for (const instance of processes.indexes) get(id, { instance, random });
      }
    },
  };
}

function conditionOf(seen: Transaction | undefined): ((tag: string) => boolean) | undefined {
  const known = seen && transactionTag(seen, seen.status);
  return known === undefined ? undefined : (tag) => tag === known;
}

async function readAll(list: TransactionList) {
  if (list.state === 'not modified') return { tag: list.tag, rows: undefined };
  const rows: Transaction[] = [];
  for (let last = false; !last; ) {
    const page = await list.pages.next();
    rows.push(...page.rows);
    last = page.last;
  }
  list.pages.close();
  return { tag: list.tag, rows };
}
