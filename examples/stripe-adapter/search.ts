import type { PaymentIntent } from './outcomes.ts';
import type { Parameters, Reply, Stripe } from './stripe.ts';

/** The name under which a PaymentIntent carries Idempay's key. */
export const REFERENCE = 'idempay_reference';

export type Found =
  | { readonly state: 'found'; readonly intent: PaymentIntent }
  /** `everywhere`: every PaymentIntent that could be the one was seen. Else Stripe's search alone says so, and it lags behind. */
  | { readonly state: 'missing'; readonly everywhere: boolean }
  | { readonly state: 'unclear'; readonly cause: string }
  /** The name that was given is not one of this reference at this account: a person must look. */
  | { readonly state: 'foreign'; readonly cause: string };

const PAGE = 100;
/** Clocks differ. */
const SKEW_SECONDS = 300;
const TIME_DIGITS = 12;
/** Far longer than the search of Stripe lags behind. */
const SEARCHED_SECONDS = 86_400;

/**
 * Looks for the PaymentIntent of a key. Stripe has no look-up by idempotency key. Its search takes one request, and may not have seen a
 * charge yet: less than a minute usually, an hour in an outage. Its lists are up to date, so they are read as well, `pages` of them at
 * most: from now back to the charges that the search has seen for certain, or to the time of the key (a UUIDv7 tells that). They take `listMs`
 * at most, so that the lists of a busy account, or its rate limit, leave the answer of the search.
 */
export async function findIntent(
  stripe: Stripe,
  reference: string,
  { pages, listMs }: { readonly pages: number; readonly listMs: number },
  deadline: AbortSignal,
): Promise<Found> {
  const query = `metadata['${REFERENCE}']:'${reference}'`;
  const hits = read(await stripe.get('/v1/payment_intents/search', { query, limit: `${PAGE}` }, deadline));
  if (hits.state === 'unclear') return hits;
  const [hit] = hits.page;
  // The index may be old: the object itself is not.
  if (hit) return readIntent(stripe, hit.id, reference, deadline);

  const inTime = AbortSignal.any([deadline, AbortSignal.timeout(listMs)]);
  let after: Parameters = {};
  for (let page = 0; page < pages; page += 1) {
    const parameters = { 'created[gte]': `${oldestOf(reference) - SKEW_SECONDS}`, limit: `${PAGE}`, ...after };
    const list = read(await stripe.get('/v1/payment_intents', parameters, inTime));
    if (list.state === 'unclear') break;
    const intent = list.page.find(({ metadata }) => metadata?.[REFERENCE] === reference);
    if (intent) return { state: 'found', intent };
    const last = list.page.at(-1);
    if (!list.hasMore || !last) return { state: 'missing', everywhere: true };
    after = { starting_after: last.id };
  }
  return { state: 'missing', everywhere: false };
}

/** Reads a PaymentIntent in one request. The result is always up to date. */
export async function readIntent(
  stripe: Stripe,
  id: string,
  reference: string,
  deadline: AbortSignal,
): Promise<Found & { state: 'found' | 'unclear' | 'foreign' }> {
  const reply = await stripe.get(`/v1/payment_intents/${id}`, {}, deadline);
  if (reply.state === 'answered' && reply.status === 404) {
    return { state: 'foreign', cause: `this account of Stripe has no ${id}` };
  }
  if (reply.state === 'lost' || reply.status !== 200) return unclear(reply);
  return foundIf(reply.body as unknown as PaymentIntent, reference);
}

/** Each reply is compared, because the adapter answers about the reference that it was asked for, whatever came back. */
export function foundIf(intent: PaymentIntent, reference: string): Found & { state: 'found' | 'foreign' } {
  if (intent.metadata?.[REFERENCE] === reference) return { state: 'found', intent };
  return { state: 'foreign', cause: `${intent.id} is of another payment` };
}

type Page = { readonly state: 'page'; readonly page: readonly PaymentIntent[]; readonly hasMore: boolean };

function read(reply: Reply): Page | (Found & { state: 'unclear' }) {
  if (reply.state === 'lost' || reply.status !== 200 || !Array.isArray(reply.body.data)) return unclear(reply);
  return { state: 'page', page: reply.body.data as PaymentIntent[], hasMore: reply.body.has_more === true };
}

function unclear(reply: Reply): Found & { state: 'unclear' } {
  const cause = reply.state === 'lost' ? `no answer of Stripe: ${reply.cause}` : `Stripe answered ${reply.status}`;
  return { state: 'unclear', cause };
}

/** A UUIDv7 begins with its time in milliseconds (RFC 9562 5.7). The key of an order is a UUIDv8, and has none. */
function oldestOf(reference: string): number {
  const digits = reference.replaceAll('-', '');
  if (digits.charAt(TIME_DIGITS) === '7') return Math.floor(Number.parseInt(digits.slice(0, TIME_DIGITS), 16) / 1000);
  return Math.floor(Date.now() / 1000) - SEARCHED_SECONDS;
}
