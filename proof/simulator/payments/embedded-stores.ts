import type { Clock } from '#idempay/clock.js';
import { createEmbeddedLedger } from '#idempay/deployments/embedded/ledger.js';
import type { PaymentRow } from '#idempay/deployments/embedded/payment-row.js';
import type { PreparedRead, Reader } from '#idempay/deployments/embedded/reader.js';
import type { WriteName } from '#idempay/deployments/embedded/write-operations.js';
import type { Writer } from '#idempay/deployments/embedded/writer.js';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import { type Fence, KEY_GENERATED } from '#idempay/payments/values/payment.js';
import { EmbeddedDatabase } from '../embedded-database.js';
import { ROUTINE, type Server } from '../network.js';
import type { Actor } from '../simulation.js';
import { openEmbeddedKeyStore } from './embedded-key-store.js';
import type { ObservedRow, PaymentRows } from './rows.js';

const ALL_ROWS = 'SELECT * FROM payments';
const ROW = 'SELECT * FROM payments WHERE key = ?';
const OUTCOMES = `SELECT key, value FROM idempotency_keys WHERE value <> '${KEY_GENERATED}'`;

/** What the operations of a payment take; those of a round have no key. */
type WriteInput = Partial<Fence & { readonly idempotencyTtlMs: number }>;

/** The file of one machine, which outlives its processes; what its statements do to a row is shown to the judge. */
export class PaymentFile {
  /** Until when each key could be begun, at the latest: by the simulation's own time, so where no clock was moved. */
  readonly goodUntil = new Map<string, number>();
  private readonly database: EmbeddedDatabase;

  constructor(readonly rows: PaymentRows) {
    this.database = new EmbeddedDatabase(() => rows.now());
  }

  write(name: WriteName, input: WriteInput): unknown {
    const { key } = input;
    const result = told(this.database.write(name, key === undefined ? input : { ...input, key: stored(key) }));
    if (name === 'issueKey') {
      const until = this.rows.simulation.time + Number(input.idempotencyTtlMs);
      if (result !== null) this.goodUntil.set(String(key), until);
    } else if (key !== undefined) this.show(name, key, input);
    else
      for (const row of this.database.prepare(ALL_ROWS).all())
        this.rows.observe(observed(row as PaymentRow), undefined);
    if (name === 'claim' && (result as { state?: string }).state === 'too late')
      this.rows.simulation.count('claims too late');
    if (name === 'settle' && typeof result !== 'number') this.rows.simulation.count('settled too late');
    return result;
  }

  prepare(sql: string): PreparedRead {
    const read = this.database.prepare(sql);
    if (!sql.includes('key = ?')) return read;
    return { ...read, get: (key) => read.get(stored(String(key))) };
  }

  /** The final values that the key records tell. */
  outcomes(): ReadonlyMap<string, string> {
    const records = this.database.prepare(OUTCOMES).all() as { key: string; value: string }[];
    return new Map(records.map(({ key, value }) => [nameOf(key), value]));
  }

  private show(name: WriteName, key: string, { epoch, owner }: WriteInput): void {
    const row = this.database.prepare(ROW).get(stored(key)) as PaymentRow | undefined;
    if (!row) return;
    const fenced = name === 'renew' || name === 'abandon' || name === 'settle';
    const fence = { key, epoch: Number(epoch), owner: String(owner) };
    this.rows.observe(observed(row), fenced ? fence : undefined);
  }
}

/** Keys have 36 characters on the disk, and short names in a trace. */
function stored(name: string): string {
  return name.padEnd(36, '-');
}

function nameOf(key: string): string {
  return key.slice(0, key.indexOf('-'));
}

/** Claims, wherever an operation tells of them, with the names of their keys. */
function told(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(told);
  if (typeof result !== 'object' || result === null) return result;
  if ('claim' in result) return { ...result, claim: told(result.claim) };
  return 'key' in result ? { ...result, key: nameOf(String(result.key)) } : result;
}

function observed(row: PaymentRow): ObservedRow {
  return {
    key: nameOf(row.key),
    transactionId: row.transaction_id,
    amount: row.amount,
    currency: row.currency,
    fingerprint: row.fingerprint,
    processor: row.processor,
    claimedAt: row.claimed_at,
    state: row.state,
    reason: row.reason ?? undefined,
    resolution: row.resolution ?? undefined,
    epoch: row.epoch,
    unsentEpoch: row.unsent_epoch ?? undefined,
    owner: row.owner,
    leaseUntil: row.lease_until,
    recoverAt: row.recover_at,
    expiresAt: row.expires_at ?? undefined,
  };
}

/** The real adapters of the embedded deployment, in one process that has opened the file. */
export function openEmbeddedStores(
  file: PaymentFile,
  line: Server,
  instance: Actor,
  clock: Clock,
): { keys: KeyStore; ledger: Ledger } {
  file.write('endAllLeases', {});
  const writer = {
    write(name: WriteName, input: WriteInput) {
      const isRound = name === 'takeOverAbandoned';
      const subject = isRound ? instance.name : String(input.key);
      return line.ask(instance, isRound ? ROUTINE : name, subject, () => file.write(name, input));
    },
  } as unknown as Writer;
  const reader = { prepare: (sql: string) => file.prepare(sql) } as unknown as Reader;
  return {
    keys: openEmbeddedKeyStore(writer, reader, clock, file.rows.broken),
    ledger: createEmbeddedLedger(writer, reader, clock),
  };
}
