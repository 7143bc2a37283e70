import type { Clock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import { toTenThousandths } from '../../../transactions/amount.js';
import {
  type Creation,
  type CreationKey,
  type CreationResult,
  type KnownCreation,
  knownCreation,
} from '../../../transactions/creation.js';
import type { TransactionStore } from '../../../transactions/ports/transaction-store.js';
import type { NewTransaction, Transaction } from '../../../transactions/transaction.js';
import { OneAtATime } from '../../shared/one-at-a-time.js';
import type { StoreMeasures } from '../../shared/store-measures.js';
import { type TransactionRow, transactionOf } from '../../shared/transaction-rows.js';
import { Batcher } from '../connection/batcher.js';
import type { ConfirmDurable } from '../connection/durability.js';
import { type Postgres, StatementRefused } from '../connection/postgres.js';
import * as statements from './transaction-statements.js';

interface KeyedCreate {
  readonly transactions: readonly NewTransaction[];
  readonly key: CreationKey;
}

interface CreatedRow extends Creation {
  readonly rowsBefore: number;
}

/**
 * Creates of transactions. Each holds the single row of the list until it commits, so each kind has one statement under way. A create
 * of many rows is a statement of its own, one at a time, with a pause after it for the other creates.
 */
export function createPostgresCreations(
  database: Postgres,
  confirmDurable: ConfirmDurable,
  clock: Clock,
  measures: StoreMeasures,
): Pick<TransactionStore, 'create' | 'createAll' | 'findCreation'> {
  const queue = (name: string) => measures.queue('postgresql', name);
  const creations = new Batcher<NewTransaction, Transaction>(createTogether, clock, 1, queue('creations'));
  const keyed = new Batcher<KeyedCreate, Creation | undefined>(createOnce, clock, 1, queue('keyed_creations'));
  const batches = new OneAtATime('PostgreSQL', clock);

  async function createTogether(transactions: readonly NewTransaction[]): Promise<Transaction[]> {
    const rows = await waitingTwice(() => database.write<TransactionRow>(statements.CREATE, columnsOf(transactions)));
    if (rows.length === 0) throw replaced();
    // Ids were given in the order of the batch; the rows may come back in any.
    return rows.map(transactionOf).sort((a, b) => a.id - b.id);
  }

  /** The result of each create; undefined if its key is known already. */
  async function createOnce(creates: readonly KeyedCreate[]): Promise<(Creation | undefined)[]> {
    const firsts = firstOfEachKey(creates);
    const rowsBefore: number[] = [];
    let rows = 0;
    for (const { transactions } of firsts) {
      rowsBefore.push(rows);
      rows += transactions.length;
    }
    const keys = firsts.map(({ key }) => key);
    const created = await database.write<CreatedRow>(statements.CREATE_ONCE, [
      keys.map(({ client }) => client),
      keys.map(({ endpoint }) => endpoint),
      keys.map(({ key }) => key),
      keys.map(({ fingerprint }) => fingerprint),
      keys.map(({ idempotencyTtlMs }) => idempotencyTtlMs),
      rowsBefore,
      ...columnsOf(firsts.flatMap(({ transactions }) => transactions)),
      firsts.flatMap(({ transactions }, index) => transactions.map(() => rowsBefore[index])),
    ]);
    const byRowsBefore = new Map(created.map((row) => [row.rowsBefore, row]));
    const results = new Map(firsts.map((create, index) => [create, byRowsBefore.get(rowsBefore[index] as number)]));
    return creates.map((create) => results.get(create));
  }

  async function findCreation({ client, endpoint, key, fingerprint }: CreationKey): Promise<KnownCreation | undefined> {
    const values = [client, endpoint, key];
    const [stored] = await database.read<Creation & { fingerprint: string }>(statements.FIND_CREATION, values);
    const known = knownCreation(stored, fingerprint);
    // The record was only read, so its commit may not be on the standby yet.
    if (known?.state === 'replayed') await confirmDurable();
    return known;
  }

  async function createWithKey(create: KeyedCreate): Promise<CreationResult> {
    const created = await (create.transactions.length === 1
      ? keyed.add(create)
      : batches.run(async () => (await createOnce([create]))[0]));
    if (created) return { state: 'created', firstId: created.firstId, createdAt: created.createdAt };
    const known = await findCreation(create.key);
    // No record either: the database was replaced, or the key expired between the two statements.
    if (!known) throw replaced();
    return known;
  }

  return {
    create: (transaction) => creations.add(transaction),

    async createAll(transactions, key) {
      if (key) return createWithKey({ transactions, key });
      const [first] = await batches.run(() => createTogether(transactions));
      return { state: 'created', firstId: first?.id ?? 0, createdAt: first?.createdAt ?? 0 };
    },

    findCreation,
  };
}

/**
 * A create without a key waits for nothing but the row of the list. A statement that holds that row may itself wait for a blocked key, and
 * is refused as late as this one, so this one waits once more. It is not the fault of one item if the row is still held then.
 */
async function waitingTwice<T>(create: () => Promise<T>): Promise<T> {
  try {
    return await create();
  } catch (fault) {
    if (!isBlocked(fault)) throw fault;
  }
  try {
    return await create();
  } catch (fault) {
    throw isBlocked(fault)
      ? new StoreUnavailable('unchanged', 'another session holds the list of transactions', fault)
      : fault;
  }
}

function isBlocked(fault: unknown): boolean {
  return fault instanceof StatementRefused && fault.sqlState === '55P03';
}

/** One create for each key: repeats in the same batch get its result. */
function firstOfEachKey(creates: readonly KeyedCreate[]): KeyedCreate[] {
  const firsts = new Map<string, KeyedCreate>();
  for (const create of creates) {
    const { client, endpoint, key } = create.key;
    const name = JSON.stringify([client, endpoint, key]);
    if (!firsts.has(name)) firsts.set(name, create);
  }
  return [...firsts.values()];
}

function columnsOf(transactions: readonly NewTransaction[]): unknown[][] {
  return [
    transactions.map(({ fromAccount }) => fromAccount),
    transactions.map(({ toAccount }) => toAccount),
    transactions.map(({ amount }) => toTenThousandths(amount)),
    transactions.map(({ status }) => status),
  ];
}

function replaced(): StoreUnavailable {
  return new StoreUnavailable('unchanged', 'the database was replaced a moment ago');
}
