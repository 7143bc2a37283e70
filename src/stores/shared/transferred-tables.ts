/**
 * The kind of a value, which says how PostgreSQL reads it. A time is in milliseconds since the epoch, and a flag is 1 or 0. A large integer
 * may be above 2^53, which no number of JavaScript holds exactly, so it travels as text.
 */
export type ColumnKind = 'text' | 'uuid' | 'integer' | 'large integer' | 'decimal' | 'time' | 'flag' | 'json';

/** A table that `idempay transfer` copies, with the columns that both databases have. */
export interface TransferredTable {
  readonly name: string;
  /** The primary key, in whose order rows are copied. */
  readonly key: readonly string[];
  readonly columns: Readonly<Record<string, ColumnKind>>;
  /** The copy is compared with the original for each value of these columns. */
  readonly comparedBy: readonly string[];
}

const PAYMENTS: TransferredTable = {
  name: 'payments',
  key: ['key'],
  columns: {
    key: 'uuid',
    transaction_id: 'text',
    amount: 'decimal',
    currency: 'text',
    fingerprint: 'text',
    processor: 'text',
    state: 'text',
    epoch: 'integer',
    owner: 'text',
    lease_until: 'time',
    expires_at: 'time',
    reason: 'text',
    claimed_at: 'time',
    settled_at: 'time',
    recover_at: 'time',
    resolution: 'text',
    unsent_epoch: 'integer',
    claimed_after_loss: 'flag',
    settled_hour: 'integer',
    client: 'text',
    events: 'json',
    reference: 'text',
    attempt: 'integer',
    source: 'text',
    content: 'text',
    pending_until: 'time',
    ending: 'text',
    processor_id: 'text',
    refund_of: 'uuid',
    refund_name: 'text',
    refund_units: 'integer',
    refund_reason: 'text',
    refund_charge_id: 'text',
    refunded: 'integer',
  },
  comparedBy: ['state', 'currency'],
};

const TRANSACTIONS: TransferredTable = {
  name: 'transactions',
  key: ['id'],
  columns: {
    id: 'integer',
    from_account: 'text',
    to_account: 'text',
    amount: 'large integer',
    status: 'text',
    version: 'integer',
    created_at: 'time',
  },
  comparedBy: ['status'],
};

const CREATION_KEYS: TransferredTable = {
  name: 'creation_keys',
  key: ['client', 'endpoint', 'key'],
  columns: {
    client: 'text',
    endpoint: 'text',
    key: 'text',
    fingerprint: 'text',
    first_id: 'integer',
    created_at: 'time',
    expires_at: 'time',
  },
  comparedBy: ['endpoint'],
};

const RETENTION_HOURS: TransferredTable = {
  name: 'retention_hours',
  key: ['hour'],
  columns: {
    hour: 'integer',
    from_ms: 'integer',
    until_ms: 'integer',
    lowest_key_ms: 'integer',
    clock_ms: 'integer',
    unseen_ms: 'integer',
    confirmed: 'flag',
  },
  comparedBy: [],
};

const PAYMENT_HORIZON: TransferredTable = {
  name: 'payment_horizon',
  key: [],
  columns: { keys_before: 'uuid', removed_until: 'time' },
  comparedBy: [],
};

/** Readers of the feed of settlements go on where they are. */
const SETTLEMENT_INCARNATIONS: TransferredTable = {
  name: 'settlement_incarnations',
  key: ['number'],
  columns: { number: 'integer', incarnation: 'text', began_at: 'time' },
  comparedBy: [],
};

/** Each endpoint goes on behind the settlements that it was told of. */
const WEBHOOK_ENDPOINTS: TransferredTable = {
  name: 'webhook_endpoints',
  key: ['name'],
  columns: {
    name: 'text',
    client: 'text',
    stopped_by: 'text',
    incarnation: 'text',
    at_us: 'integer',
    key: 'uuid',
    owner: 'text',
    lease_until: 'time',
  },
  comparedBy: [],
};

const WEBHOOK_SET_ASIDE: TransferredTable = {
  name: 'webhook_set_aside',
  key: ['endpoint', 'key'],
  columns: { endpoint: 'text', key: 'uuid', cause: 'text', set_aside_at: 'time', next_try_at: 'time' },
  comparedBy: [],
};

const TRANSACTION_LIST: TransferredTable = {
  name: 'transaction_list',
  key: [],
  columns: {
    last_id: 'integer',
    version: 'integer',
    last_removal_version: 'integer',
    removals: 'integer',
    previous_removal_version: 'integer',
  },
  comparedBy: [],
};

const TRANSACTION_REMOVALS: TransferredTable = {
  name: 'transaction_removals',
  key: ['slot'],
  columns: {
    slot: 'integer',
    version: 'integer',
    previous_version: 'integer',
    id: 'integer',
    from_account: 'text',
    to_account: 'text',
  },
  comparedBy: [],
};

/** Copied in batches, each of which is a commit. */
export const LONG_TABLES: readonly TransferredTable[] = [PAYMENTS, TRANSACTIONS, CREATION_KEYS];

/** Copied at once, after the others. */
export const SHORT_TABLES: readonly TransferredTable[] = [
  RETENTION_HOURS,
  PAYMENT_HORIZON,
  SETTLEMENT_INCARNATIONS,
  WEBHOOK_ENDPOINTS,
  WEBHOOK_SET_ASIDE,
  TRANSACTION_LIST,
  TRANSACTION_REMOVALS,
];

/** A row as it travels: the value of each column as the embedded database has it. */
export type TransferredRow = Readonly<Record<string, string | number | null>>;

/** A key that was issued, and was not paid when the folder was left. */
export interface UnpaidKey {
  readonly key: string;
  readonly client: string | null;
  readonly reference: string | null;
  readonly attempt: number | null;
  /** The time for which it may still be paid. */
  readonly lifeMs: number;
}

/** The bounds and names in the row of the deployment, which both databases keep in their own forms. Times as in a row. */
export interface TransferredDeployment {
  readonly id: string;
  readonly lookUpBefore: string;
  /** A moment of the time that processes have seen pass, in milliseconds. */
  readonly lookUpReferencesUntil: number;
  /** Milliseconds since the epoch; null: never. */
  readonly adoptedAt: number | null;
  readonly processors: readonly string[];
  readonly processorsBeforeLoss: readonly string[] | null;
  readonly lostMs: number | null;
  /** The client that has adopted the rows without credentials; null if nothing was decided. */
  readonly adopter: string | null;
}

/** Large sums are kept exact in two parts, neither of which reaches the largest integer of a database. */
const SUM_BASE = 1_000_000;

/**
 * The statement that counts and sums a table, a row for each value of `comparedBy`, all as text. `integerOf`: the SQL of a column whose
 * values are, or count as, integers; undefined if only its length counts.
 */
export function sumsOf(
  { columns, comparedBy }: TransferredTable,
  from: string,
  integerOf: (column: string, kind: ColumnKind) => string | undefined,
): string {
  const sums = Object.entries(columns).flatMap(([column, kind]) => {
    const integer = integerOf(column, kind);
    if (integer !== undefined) return [`sum(${integer} / ${SUM_BASE})`, `sum(${integer} % ${SUM_BASE})`];
    return kind === 'text' ? [`count(${column})`, `sum(length(${column}))`] : [`count(${column})`];
  });
  const values = [...comparedBy, 'count(*)', ...sums].map((value, index) => `CAST(${value} AS text) AS value_${index}`);
  const groups = comparedBy.length > 0 ? `GROUP BY ${comparedBy.join(', ')}` : '';
  return `SELECT ${values.join(', ')} FROM ${from} ${groups}`;
}

/** One text of all rows, whatever order the database gave them in. */
export function textOfSums(rows: readonly object[]): string {
  return rows
    .map((row) => JSON.stringify(Object.values(row)))
    .sort()
    .join('\n');
}
