import { setImmediate } from 'node:timers/promises';
import { StoreUnavailable } from '../../platform/faults.js';
import type { Endings } from '../endings.js';
import { createPaymentCounts, type PaymentCounts } from '../payment-counts.js';
import type { KeyStore } from '../ports/key-store.js';
import type { Ledger } from '../ports/ledger.js';
import type { NewestPage, PaymentHistory, PaymentRecord, Selection } from '../ports/payment-history.js';
import { isKeptOf, keptReason } from '../processors/decline-reason.js';
import type { RecoveryEvents } from '../recovery.js';
import { mayBeGenerated } from '../values/idempotency-key.js';
import { isVisibleTo, type Outcome } from '../values/payment.js';

/** Read at a time by an export: short enough that other requests are served between two pages. */
const EXPORT_PAGE = 500;
/**
 * How long after the end of its life a key counts as ended for certain. Longer than the clocks of two machines that are
 * synchronized differ, and than a claim that was sent in time may take to commit.
 */
const ENDED_FOR_CERTAIN_MS = 5 * 60_000;
/** Rows read for a page of a list: ten of the longest pages, and a few milliseconds of the event loop where the store is in the process. */
const LIST_READ_LIMIT = 5_000;
/** The same of a search in content, whose rows may have 40 kB each. */
const CONTENT_READ_LIMIT = 1_000;

const ANY = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined } as const;

/** A payment as it is shown: also one whose key was issued and that has no row yet (rule P11). */
export type ShownPayment =
  | PaymentRecord
  | ({ readonly state: 'PENDING'; readonly key: string } & Partial<
      Pick<PaymentRecord, 'reference' | 'attempt' | 'client'>
    >);

export interface AbsentPayment {
  readonly state: 'ABSENT';
  /**
   * It is certain, for the client that asks, that nothing was charged with the key and nothing can be. Where it is not, a payment may
   * have been made whose row is lost or removed, or may still be made.
   */
  readonly endedUnpaid: boolean;
}

/** What clients and operators may ask of payments, and what only an operator can decide. */
export interface PaymentRecords {
  /**
   * Absent: a key that was never issued, has expired unpaid, or whose payment is no longer kept, and one of another client than
   * `client` (rule A5).
   */
  get(key: string, client?: string): Promise<ShownPayment | AbsentPayment>;
  /** Newest first. A page may be short, even empty, and not the last: it is bounded by the rows that are read for it. */
  list(selection: Selection): Promise<NewestPage>;
  /** The newest payment of the client, if a client is named, at the reference, if one is named. Undefined if there is none. */
  newestOf(whose: Pick<Selection, 'client' | 'reference' | 'reader'>): Promise<PaymentRecord | undefined>;
  /**
   * Everything that was settled in [from, to), milliseconds since the epoch, page by page in the order of settling;
   * `processor`: only that of the processor with this name; `reader`: the client that reads.
   */
  settled(from: number, to: number, processor?: string, reader?: string): AsyncIterable<readonly PaymentRecord[]>;
  /** Writes the outcome that an operator found out for a payment that the service cannot find out itself. */
  resolve(key: string, verdict: Verdict): Promise<ResolveAnswer>;
}

export interface Verdict {
  readonly state: Outcome['state'];
  readonly reason: string;
}

export type ResolveAnswer =
  /** Also when the same verdict is given again. The payment is undefined when its row has been removed meanwhile. */
  | { readonly state: 'resolved' | 'final'; readonly payment: PaymentRecord | undefined }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The service may still find out by itself: asking the processor, or sending the charge again. */
  | { readonly state: 'too early'; readonly retryAfterSeconds: number }
  | { readonly state: 'not found' };

export function createPaymentRecords(collaborators: {
  keys: KeyStore;
  endings: Endings;
  ledger: Ledger;
  history: PaymentHistory;
  /** From this age on the service finds nothing out any more, and an operator may decide. */
  dedupMs: number;
  /** The same where nothing was ever sent: until then recovery sends it (rule P15). */
  idempotencyTtlMs: number;
  /** A key lives this much longer where its payment was begun at the end of its life. */
  leaseMs: number;
  newOwner: () => string;
  /** Finishes the payment if its processor knows the outcome; sends nothing. */
  finishByLookUp: (key: string) => Promise<void>;
  onResolved?: RecoveryEvents['resolved'];
  counts?: Pick<PaymentCounts, 'settled'>;
}): PaymentRecords {
  const { keys, endings, ledger, history, dedupMs, idempotencyTtlMs, leaseMs, newOwner, finishByLookUp } =
    collaborators;
  const keyLifeMs = idempotencyTtlMs + leaseMs + ENDED_FOR_CERTAIN_MS;
  const { counts = createPaymentCounts(), onResolved } = collaborators;

  /** The verdict is written, so a store that fails now is reported as unknown, not as unchanged. */
  async function shownAfterwards(key: string): Promise<PaymentRecord | undefined> {
    return history.find(key).catch((fault: unknown) => {
      throw new StoreUnavailable('unknown', 'the verdict was written and could not be read', fault);
    });
  }

  async function hasEndedUnpaid(key: string, client: string | undefined): Promise<boolean> {
    return mayBeGenerated(key) && (await ledger.endedUnclaimed(key, keyLifeMs, client));
  }

  return {
    async get(key, client) {
      const payment = await history.find(key);
      if (payment && isVisibleTo(client, payment.client)) return payment;
      // Also of another client's payment, which must cost what an unknown key costs.
      const looked = await keys.look(key, client);
      switch (looked.state) {
        case 'absent':
          return { state: 'ABSENT', endedUnpaid: await hasEndedUnpaid(key, client) };
        case 'final':
          // It was claimed and settled after the row was looked for, or its row is lost or removed.
          return (await history.find(key)) ?? { state: 'ABSENT', endedUnpaid: false };
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

    list: (selection) =>
      history.newest(selection, selection.content === undefined ? LIST_READ_LIMIT : CONTENT_READ_LIMIT),

    async newestOf(whose) {
      const { payments } = await history.newest({ ...ANY, ...whose, limit: 1 }, LIST_READ_LIMIT);
      return payments[0];
    },

    /** Filters the pages: a statement that looks for a rare processor would read a whole day at once. */
    async *settled(from, to, processor, reader) {
      let after: string | undefined;
      do {
        const page = await history.settled({ from, to, after, limit: EXPORT_PAGE, reader });
        // What was cancelled was never charged.
        yield page.payments.filter(({ state, processor: its }) => state !== 'CANCELLED' && (processor ?? its) === its);
        after = page.next;
        // Otherwise a store that reads in this process, with a client that reads fast, would block all other requests.
        await setImmediate();
      } while (after !== undefined);
    },

    /**
     * The processor is asked first, because what it knows counts more than what a person found out.
     * Dies before `resolve`: nothing happened. Dies after it: the row is final, and the next begin or look finds it there
     * and repairs the key record. Given twice: the second finds the first one's verdict.
     */
    async resolve(key, { state, reason }) {
      await finishByLookUp(key);
      const owner = newOwner();
      const kept = keptReason(reason, await ledger.sourceOf(key));
      const resolved = await ledger.resolve({ key, owner, state, reason: kept, dedupMs, idempotencyTtlMs });
      switch (resolved.state) {
        case 'resolved': {
          counts.settled.operator += 1;
          // The commit is known, so the verdict stands, also when the key store fails now.
          await endings.finish(key, owner, resolved.final);
          const shown = await shownAfterwards(key).catch((fault: unknown) => {
            onResolved?.(undefined, state);
            throw fault;
          });
          onResolved?.(shown?.state === 'CANCELLED' ? undefined : shown, state);
          return { state: 'resolved', payment: shown };
        }
        case 'settled before': {
          const payment = await history.find(key);
          const sameVerdict = payment?.state === state && isKeptOf(payment.resolution, reason);
          return { state: sameVerdict ? 'resolved' : 'final', payment };
        }
        case 'under way':
          return { state: 'in progress', retryAfterSeconds: wholeSeconds(resolved.remainingMs) };
        case 'too early':
          return { state: 'too early', retryAfterSeconds: wholeSeconds(resolved.remainingMs) };
        case 'absent':
          return { state: 'not found' };
      }
    },
  };
}

function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
