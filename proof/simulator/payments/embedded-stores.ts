import type { Clock } from '#idempay/clock.js';
import { createEmbeddedLedger } from '#idempay/deployments/embedded/ledger.js';
import type { KeyRecord } from '#idempay/deployments/embedded/payment-row.js';
import type { PreparedRead, Reader } from '#idempay/deployments/embedded/reader.js';
import type { WriteName, WriteOperations } from '#idempay/deployments/embedded/write-operations.js';
import type { Writer } from '#idempay/deployments/embedded/writer.js';
import type { KeyStore } from '#idempay/payments/key-store.js';
import type { Ledger, Settled } from '#idempay/payments/ledger.js';
import { KEY_GENERATED, recordValueOf } from '#idempay/payments/payment.js';
import { ROUTINE, type Server } from '../network.js';
import type { Actor } from '../simulation.js';
import { openEmbeddedKeyStore } from './embedded-key-store.js';
import { finalOf, type PaymentRows, type Row } from './rows.js';

/** A file on a disk, written by one thread: what the writer thread does with SQLite, done with maps. */
export class PaymentFile {
  readonly records = new Map<string, KeyRecord>();
  readonly goodUntil = new Map<string, number>();

  constructor(readonly rows: PaymentRows) {}

  readonly operations: Partial<WriteOperations> = {
    issueKey: (key, ttlMs) => {
      if (this.records.has(key)) return null;
      const expiresAt = this.rows.now() + ttlMs;
      this.records.set(key, { value: KEY_GENERATED, fingerprint: null, reason: null, expires_at: expiresAt });
      this.goodUntil.set(key, this.rows.simulation.time + ttlMs);
      return expiresAt;
    },

    claim: (key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs, claimBefore) => {
      const { rows } = this;
      const claimBy = claimBefore;
      const attempt = { key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs, claimBy };
      if (rows.insert(attempt, claimBefore)) return 'claimed';
      const row = rows.byKey.get(key);
      if (!row) return { state: 'too late' };
      if (row.state !== 'PROCESSING') {
        return this.isRepeatable(row) ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
      }
      const claim = rows.takeOver(key, owner, leaseMs, processor);
      if (claim) return { state: 'taken over', claim };
      return {
        state: 'under way',
        fingerprint: row.fingerprint,
        remainingMs: Math.max(0, row.leaseUntil - rows.now()),
      };
    },

    takeOver: (key, owner, leaseMs, processor) => this.rows.takeOver(key, owner, leaseMs, processor) ?? null,

    takeOverAbandoned: (owner, leaseMs, processor, limit) =>
      this.rows.takeOverAbandoned(owner, leaseMs, processor, limit),

    renew: (key, epoch, owner, leaseMs) => this.rows.renew({ key, epoch, owner }, leaseMs),

    abandon: (key, epoch, owner, recoverAfterMs) => {
      this.rows.abandon({ key, epoch, owner }, recoverAfterMs);
    },

    settle: (
      key,
      epoch,
      owner,
      state,
      value,
      reason,
      fingerprint,
      ttlMs,
    ): number | Exclude<Settled, { state: 'settled' }> => {
      const before = this.rows.byKey.get(key);
      const outcome =
        state === 'DECLINED' ? { state, reason: reason ?? '' } : { state, transactionId: before?.transactionId ?? '' };
      const row = this.rows.settle({ key, epoch, owner }, outcome, ttlMs);
      if (row) return this.record(row, value, fingerprint);
      return before && before.state !== 'PROCESSING'
        ? { state: 'final', final: finalOf(before) }
        : { state: 'fenced off' };
    },

    resolve: (key, owner, state, reason, minAgeMs, ttlMs) => {
      const { rows } = this;
      const resolved = rows.resolve({ key, owner, state, reason, minAgeMs, ttlMs });
      if (resolved) {
        this.record(resolved, recordValueOf(finalOf(resolved).outcome), resolved.fingerprint);
        return { state: 'resolved', final: finalOf(resolved) };
      }
      const row = rows.byKey.get(key);
      const now = rows.now();
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.leaseUntil > now) return { state: 'under way', remainingMs: row.leaseUntil - now };
      return { state: 'too early', remainingMs: row.claimedAt + minAgeMs - now };
    },
  };

  isRepeatable(row: Row): boolean {
    return (row.expiresAt ?? 0) > this.rows.now();
  }

  /** The final value of a key, in the commit that makes its payment final. */
  private record({ key, reason, expiresAt = 0 }: Row, value: string, fingerprint: string): number {
    this.records.set(key, { value, fingerprint, reason: reason ?? null, expires_at: expiresAt });
    return expiresAt;
  }

  /** The three statements that the adapters read by, told by what they ask for. */
  read(sql: string): PreparedRead['get'] {
    if (sql.includes('FROM idempotency_keys')) return (key) => this.records.get(String(key));
    if (sql.includes('count(*)')) {
      return (now, claimedBefore) => {
        const overdue = [...this.rows.byKey.values()].filter(
          (row) => row.state === 'PROCESSING' && row.leaseUntil <= Number(now) && row.claimedAt < Number(claimedBefore),
        );
        return { abandoned: overdue.length };
      };
    }
    if (!sql.includes('FROM payments WHERE key = ?')) throw new Error(`nobody can read ${sql}`);
    return (key) => {
      const row = this.rows.byKey.get(String(key));
      return (
        row && {
          state: row.state,
          transaction_id: row.transactionId,
          reason: row.reason ?? null,
          fingerprint: row.fingerprint,
          expires_at: row.expiresAt ?? null,
          lease_until: row.leaseUntil,
        }
      );
    };
  }
}

/** The real adapters of the embedded deployment, in one process that has opened the file. */
export function openEmbeddedStores(
  file: PaymentFile,
  line: Server,
  instance: Actor,
  clock: Clock,
): { keys: KeyStore; ledger: Ledger } {
  file.rows.endAllLeases();
  const writer = {
    write(name: WriteName, ...parameters: readonly unknown[]) {
      const isRound = name === 'takeOverAbandoned';
      const subject = isRound ? instance.name : String(parameters[0]);
      const operation = file.operations[name] as ((...given: readonly unknown[]) => unknown) | undefined;
      if (!operation) throw new Error(`nobody can write ${name}`);
      return line.ask(instance, isRound ? ROUTINE : name, subject, () => operation(...parameters));
    },
  } as unknown as Writer;
  const reader = {
    prepare: (sql: string) => ({ get: file.read(sql) }),
  } as unknown as Reader;
  return {
    keys: openEmbeddedKeyStore(writer, reader, clock),
    ledger: createEmbeddedLedger(writer, reader, clock),
  };
}
