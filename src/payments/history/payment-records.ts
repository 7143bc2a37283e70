import { setImmediate } from 'node:timers/promises';
import type { PaymentContext } from '../context.js';
import type { ClaimedPayment, NewestPage, PaymentRecord, Selection } from '../ports/payment-history.js';
import { mayBeGenerated } from '../values/idempotency-key.js';
import { isVisibleTo } from '../values/payment.js';
import { createResolve, type Resolve, type ResolveContext } from './resolve.js';

/** Read at a time by an export: short enough that other requests are served between two pages. */
const EXPORT_PAGE = 500;
/**
 * How long after the end of its life a key counts as ended for certain. Longer than the clocks of two machines that are
 * synchronized differ, and than a claim that was sent in time may take to commit.
 */
const ENDED_FOR_CERTAIN_MS = 5 * 60_000;
/** Rows read for a page of a list: ten of the longest pages, and a few milliseconds of the event loop if the store is in the process. */
const LIST_READ_LIMIT = 5_000;
/** The same of a search in content, whose rows may have 40 kB each. */
const CONTENT_READ_LIMIT = 1_000;

/** A payment as it is shown: also one whose key was issued and that has no row yet (rule P11). */
export type ShownPayment =
  | PaymentRecord
  | ({ readonly state: 'PENDING'; readonly key: string } & Partial<
      Pick<PaymentRecord, 'reference' | 'attempt' | 'client'>
    >);

export interface SettledOnly extends Pick<Selection, 'kind' | 'reader'> {
  readonly processor?: string | undefined;
}

export interface AbsentPayment {
  readonly state: 'ABSENT';
  /**
   * It is certain, for the client that asks, that nothing was charged with the key and nothing can be. If it is not certain, a payment may
   * have been made whose row is lost or removed, or may still be made.
   */
  readonly endedUnpaid: boolean;
}

/** The questions about payments for clients and operators, and the decisions that only an operator can make. */
export interface PaymentRecords {
  /**
   * Absent: a key that was never issued, has expired unpaid, or whose payment is no longer kept, and one of another client than
   * `client` (rule A5).
   */
  get(key: string, client?: string): Promise<ShownPayment | AbsentPayment>;
  /** A payment or a refund that has a row. */
  findOperation(key: string): Promise<PaymentRecord | undefined>;
  /** The refunds of a payment, oldest first. Absent as with `get`. */
  refundsOf(key: string, client?: string): Promise<readonly ClaimedPayment[] | undefined>;
  /** Newest first. A page may be short, even empty, and not the last: it is bounded by the rows that are read for it. */
  list(selection: Selection): Promise<NewestPage>;
  /** The newest payment of the client, if a client is named, at the reference, if one is named. Undefined if there is none. */
  newestOf(whose: Pick<Selection, 'client' | 'reference' | 'reader'>): Promise<PaymentRecord | undefined>;
  /**
   * Everything that was settled in [from, to), milliseconds since the epoch, page by page in the order of settling; `processor`: only
   * payments of the processor with this name; `kind`: payments, if it is omitted; `reader`: the client that reads.
   */
  settled(from: number, to: number, only: SettledOnly): AsyncIterable<readonly PaymentRecord[]>;
  /** Writes the outcome that an operator found out for a payment that the service cannot find out itself. */
  readonly resolve: Resolve;
}

export function createPaymentRecords(context: ResolveContext & Pick<PaymentContext, 'keys'>): PaymentRecords {
  const { keys, ledger, history } = context;
  const { idempotencyTtlMs, leaseMs } = context.rules;
  /** A key lives longer by the lease if its payment was begun at the end of its life. */
  const keyLifeMs = idempotencyTtlMs + leaseMs + ENDED_FOR_CERTAIN_MS;

  async function hasEndedUnpaid(key: string, client: string | undefined): Promise<boolean> {
    return mayBeGenerated(key) && (await ledger.endedUnclaimed(key, keyLifeMs, client));
  }

  /** A refund is no payment. */
  async function findPayment(key: string): Promise<PaymentRecord | undefined> {
    const found = await history.find(key);
    return found?.refund ? undefined : found;
  }

  return {
    async get(key, client) {
      const payment = await findPayment(key);
      if (payment && isVisibleTo(client, payment.client)) return payment;
      // Also of another client's payment, which must cost what an unknown key costs.
      const looked = await keys.look(key, client);
      switch (looked.state) {
        case 'absent':
          return { state: 'ABSENT', endedUnpaid: await hasEndedUnpaid(key, client) };
        case 'final':
          // It was claimed and settled after the row was looked for, or its row is lost or removed.
          return (await findPayment(key)) ?? { state: 'ABSENT', endedUnpaid: false };
        case 'generated':
          return {
            ...{ state: 'PENDING', key, client: looked.client },
            ...{ reference: looked.reference?.text, attempt: looked.reference?.attempt },
          };
        case 'locked':
          // An attempt is about to claim.
          return { state: 'PENDING', key };
      }
    },

    findOperation: (key) => history.find(key),

    async refundsOf(key, client) {
      const payment = await findPayment(key);
      if (!payment || !isVisibleTo(client, payment.client)) return undefined;
      return history.refundsOf(key);
    },

    list: (selection) =>
      history.newest(selection, selection.content === undefined ? LIST_READ_LIMIT : CONTENT_READ_LIMIT),

    async newestOf(whose) {
      const { payments } = await history.newest({ ...whose, limit: 1 }, LIST_READ_LIMIT);
      return payments[0];
    },

    /** Filters the pages: a statement that looks for a rare processor would read a whole day at once. */
    async *settled(from, to, { processor, kind, reader }) {
      let after: string | undefined;
      do {
        const page = await history.settled({ from, to, kind, after, limit: EXPORT_PAGE, reader });
        after = page.next;
        // A cancelled payment was never charged.
        const shown = page.payments.filter(
          ({ state, processor: its }) => state !== 'CANCELLED' && (processor ?? its) === its,
        );
        if (shown.length > 0 || after !== undefined) yield shown;
        // Otherwise a store that reads in this process, with a client that reads fast, would block all other requests.
        await setImmediate();
      } while (after !== undefined);
    },

    resolve: createResolve(context),
  };
}
