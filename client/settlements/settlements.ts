import { SettlementsGoneError, UnavailableError } from '../errors.js';
import { detailsOf } from '../http/answers.js';
import type { CallOptions } from '../http/call.js';
import { isPayment, jsonOf } from '../http/forms.js';
import { askedAnew, queryOf } from '../http/pages.js';
import { isObject, provenMessageOf } from '../http/proof.js';
import type { Requests } from '../http/requests.js';
import type { Answer } from '../http/transport.js';
import { momentOf, type PaymentKind } from '../payments/payment-records.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { Payment } from '../representations.js';
import type { Settings } from '../settings.js';

export interface SettlementFilter {
  /** The `next` of a page, or `'now'`. Without it, and without `from`, the oldest settlement that the service has kept comes first. */
  readonly after?: string | undefined;
  /** Begins at a day (`'2026-11-20'`, UTC) or a moment, such as the `from` of a SettlementsGoneError. Not together with `after`. */
  readonly from?: string | Date | undefined;
  /** Only payments, or only refunds. If omitted, both. */
  readonly kind?: PaymentKind | undefined;
  /** For operators: only settlements of this client. */
  readonly client?: string | undefined;
  /** How many settlements one page has: 1 to 1,000. */
  readonly limit?: number | undefined;
}

export interface SettlementPage {
  /** In the order in which they were settled. */
  readonly settlements: readonly Payment[];
  /** The place after this page: keep it when the page is processed, and give it as `after`. */
  readonly next: string;
}

export interface Settlements {
  /** The page after a place, at once. It may be empty, and not the last. Rejects with a SettlementsGoneError as `follow`. */
  page(filter?: SettlementFilter, options?: CallOptions): Promise<SettlementPage>;
  /**
   * Payments and refunds as they end, page by page, without an end; the deadline is of each request. A page may be empty: it has a place to
   * keep all the same. If every `next` is kept after its page is processed, each settlement comes at least once, and a settlement that comes
   * again has the same key and state. An outage is waited for, if the first request succeeded.
   *
   * Rejects with a SettlementsGoneError if the place is of no use any more: follow again with its `from`.
   */
  follow(filter?: SettlementFilter, options?: CallOptions): AsyncIterable<SettlementPage>;
}

const FILTERS = new Set(['after', 'from', 'kind', 'client', 'limit']);
/** The service waits for at most half of the time that an attempt may take. */
const LONGEST_WAIT_SECONDS = 10;
/** Between two requests if the service did not wait: a gateway may drop the header that asks it to. */
const PAUSE_MS = 1_000;
/** The longest pause, whatever `Retry-After` says. With a longer one settlements would be seen late. */
const LONGEST_PAUSE_MS = 60_000;
const NEVER = new AbortController().signal;

export function createSettlements(settings: Settings, requests: Requests): Settlements {
  const halfSeconds = Math.floor(settings.attemptTimeoutMs / 2_000);
  const waitSeconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, halfSeconds));

  function read(filter: SettlementFilter, options: CallOptions, headers: Readonly<Record<string, string>> = {}) {
    refuseUnknown(filter, 'option of the feed', FILTERS);
    const { after, from, kind, client, limit } = filter;
    const path = `/api/settlements${queryOf({ after, from: momentOf('from', from), kind, client, limit: limit?.toString() })}`;
    return requests.send(options, { method: 'GET', path, headers }, pageIn);
  }

  async function* follow(filter: SettlementFilter, options: CallOptions): AsyncGenerator<SettlementPage> {
    // The first request does not wait, so that it reports a wrong address or credential at once.
    let page = await read(filter, options);
    for (;;) {
      yield page;
      page = await readAgain({ ...filter, from: undefined, after: page.next }, options);
    }
  }

  async function readAgain(filter: SettlementFilter, options: CallOptions): Promise<SettlementPage> {
    const { clock } = settings;
    const pause = (ms: number) => clock.sleep(ms, options.signal ?? NEVER);
    for (;;) {
      const askedAtMs = clock.now();
      try {
        const page = await read(filter, options, { prefer: `wait=${waitSeconds}` });
        const hasWaited = clock.now() - askedAtMs >= PAUSE_MS;
        if (page.settlements.length === 0 && !hasWaited) await pause(PAUSE_MS);
        return page;
      } catch (fault) {
        if (!(fault instanceof UnavailableError) || options.signal?.aborted) throw fault;
        const askedForMs = (fault.retryAfterSeconds ?? 0) * 1_000;
        await pause(Math.max(PAUSE_MS, Math.min(askedForMs, LONGEST_PAUSE_MS)));
      }
    }
  }

  return {
    page: async (filter = {}, options = {}) => read(filter, options),
    follow: (filter = {}, options = {}) => askedAnew(() => follow(filter, options)),
  };
}

function pageIn(answer: Answer): SettlementPage | undefined {
  const gone = answer.status === 410 ? provenMessageOf(answer) : undefined;
  const from = answer.headers.get('idempay-settlements-from');
  if (gone !== undefined && from !== null) throw new SettlementsGoneError(gone, from, detailsOf(answer));
  const page = jsonOf(answer);
  if (!isObject(page)) return undefined;
  const { settlements, next } = page;
  const isPage = Array.isArray(settlements) && settlements.every(isPayment) && typeof next === 'string' && next !== '';
  return isPage ? Object.freeze({ settlements, next }) : undefined;
}
