import { namesIn } from '../../../payments/ports/ledger.js';
import type { RefundAttempt, RefundClaimResult, RefundLedger } from '../../../payments/ports/refund-ledger.js';
import { type Claim, isVisibleTo } from '../../../payments/values/payment.js';
import { isUnknown } from '../../../platform/faults.js';
import type { DatabaseClock } from '../connection/database-clock.js';
import type { ConfirmDurable } from '../connection/durability.js';
import type { PostgresPart } from '../connection/part.js';
import { StatementRefused } from '../connection/postgres.js';
import { createFindRow, findResultOf } from './find-row.js';
import { FIND } from './ledger-statements.js';
import type { PaymentRow } from './payment-row.js';
import { createProcessorNames } from './processor-names.js';
import { CLAIM_REFUND, EXPLAIN_REFUND } from './refund-statements.js';

const ABSENT = { state: 'absent' } as const;
const TOO_LATE = { state: 'too late' } as const;
/** Nothing stands in the way any more: it is inserted once more. */
const FREE = 'free';
const UNIQUE_VIOLATION = '23505';

/** A row that this claim inserted. */
interface Inserted {
  readonly client: string | null;
  /** An earlier row of its key may have been lost with a failover or a restore. */
  readonly claimed_after_loss: boolean | null;
}

/** The rows of refunds in PostgreSQL. `onRefused`: as for the ledger. */
export function createPostgresRefundLedger(
  database: PostgresPart,
  clock: DatabaseClock,
  confirmDurable: ConfirmDurable,
  onRefused: (sentence: string) => void = () => {},
): RefundLedger {
  const processorNames = createProcessorNames(database, onRefused);
  const findRow = createFindRow(readRow, database, confirmDurable);

  async function readRow(key: string): Promise<PaymentRow | undefined> {
    const [row] = await database.read<PaymentRow>(FIND, [[key]]);
    return row;
  }

  async function findRefundRow(key: string): Promise<PaymentRow | undefined> {
    const row = await findRow(key);
    return row && row.refund_of !== null ? row : undefined;
  }

  async function insert(attempt: RefundAttempt): Promise<Inserted | undefined> {
    const { key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs, claimBy } = attempt;
    const { refund, units, charged, chargedUnits, lateMs } = attempt;
    const [inserted] = await database.write<Inserted>(CLAIM_REFUND, [
      ...[key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs, clock.at(claimBy)],
      ...[refund.payment, refund.name, refund.reason ?? null, refund.chargeId ?? null, units],
      ...[charged.amount, chargedUnits, namesIn(attempt), lateMs ?? null],
    ]);
    return inserted;
  }

  /** A claim whose reply was lost is read back by its owner. */
  async function insertOrReadBack(attempt: RefundAttempt): Promise<Inserted | undefined> {
    try {
      return await insert(attempt);
    } catch (fault) {
      // Another claim of the name was first.
      if (fault instanceof StatementRefused && fault.sqlState === UNIQUE_VIOLATION) return undefined;
      if (!isUnknown(fault)) throw fault;
      const { key, owner } = attempt;
      const row = await findRow(key, { key, epoch: 1, owner }).catch(() => undefined);
      if (row?.state !== 'PROCESSING' || row.owner !== owner || row.epoch !== 1) throw fault;
      return row;
    }
  }

  /** The refund was there before, or the payment refuses it, or the claim came too late. */
  async function explain(attempt: RefundAttempt): Promise<RefundClaimResult | typeof FREE> {
    const row = await findRefundRow(attempt.key);
    if (row) return resultOf(row);
    const { refund, charged, chargedUnits, units, lateMs, processor } = attempt;
    const values = [refund.payment, charged.amount, charged.currency, namesIn(attempt), lateMs ?? null, chargedUnits];
    const [payment] = await database.read<{ inTime: boolean; leftUnits: number }>(EXPLAIN_REFUND, values);
    if (!payment) return { state: 'not refundable' };
    if (!payment.inTime) return { state: 'too old' };
    if (payment.leftUnits < units) return { state: 'too much', leftUnits: payment.leftUnits };
    await processorNames.registerAgain(processor);
    return FREE;
  }

  function resultOf(row: PaymentRow): RefundClaimResult {
    const found = findResultOf(row);
    if (found.state === 'expired') throw new Error('a refund never expires');
    return found;
  }

  async function claimOnce(attempt: RefundAttempt): Promise<RefundClaimResult | typeof FREE> {
    const inserted = await insertOrReadBack(attempt);
    return inserted ? { state: 'claimed', claim: claimOf(attempt, inserted) } : explain(attempt);
  }

  return {
    async claimRefund(attempt) {
      const registering = processorNames.register(attempt.processor);
      if (registering) await registering;
      const first = await claimOnce(attempt);
      // The part is free again, as when another refund was declined after the first statement.
      const last = first === FREE ? await claimOnce(attempt) : first;
      if (last !== FREE) return last;
      clock.synchronize().catch(() => {});
      return TOO_LATE;
    },

    async findRefund(key, client) {
      const row = await findRefundRow(key);
      return row && isVisibleTo(client, row.client) ? findResultOf(row) : ABSENT;
    },
  };
}

/** If an earlier row of it may have been lost, it may have given back already: the processor is asked first. */
function claimOf(attempt: RefundAttempt, { client, claimed_after_loss: isAfterLoss }: Inserted): Claim {
  const { key, owner, transactionId, amount, currency, fingerprint, processor, refund } = attempt;
  const money = { amount, currency, fingerprint, client: client ?? undefined, processor };
  const claim = { key, epoch: 1, owner, transactionId, ...money, refund, unsent: !isAfterLoss, ageMs: 0 };
  return isAfterLoss ? { ...claim, mayBeLost: true, claimedAfterLoss: true } : claim;
}
