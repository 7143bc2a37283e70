import { setTimeout as pause } from 'node:timers/promises';
import {
  type Answer,
  intentIn,
  isDeclineOf,
  isEnding,
  isFinal,
  isOfAnotherRequest,
  isOver,
  isRateLimited,
  isUnexpectedState,
  outcomeOfIntent,
  outcomeOfRefusal,
  type PaymentIntent,
  unclear,
  wrongSetUp,
} from './outcomes.ts';
import { type Found, findIntent, foundIf, readIntent } from './search.ts';
import type { Parameters, Reply, Stripe } from './stripe.ts';

export interface IntentSettings {
  /** The most pages of a list that are read to look for one charge. */
  readonly pages: number;
  /** The time for them, in milliseconds. The rest of a question is for its other requests. */
  readonly listMs: number;
  /** The time from the charge within which a payer may confirm it. */
  readonly pendingMs: number;
}

const RATE_LIMIT_PAUSE_MS = 250;
/** Stripe's words for the reason of a cancellation. */
const BY_SHOP = 'requested_by_customer';
const BY_TIME = 'abandoned';

export type Intents = ReturnType<typeof createIntents>;

/** The PaymentIntent of one reference, for one question of Idempay. */
export function createIntents(stripe: Stripe, { pages, listMs, pendingMs }: IntentSettings) {
  return { create, find, outcomeOf, settled, ended, throughRateLimit };

  /**
   * Sends the request once. Only a rate limit is followed by another send: it stands before Stripe's idempotency keys, so nothing was
   * begun.
   */
  function create(parameters: Parameters, reference: string, deadline: AbortSignal): Promise<Reply> {
    return throughRateLimit(() => stripe.post('/v1/payment_intents', parameters, reference, deadline), deadline);
  }

  /** Reads the PaymentIntent with `id`, the name from an earlier reply, and searches only if it is omitted. */
  function find(reference: string, id: string | undefined, deadline: AbortSignal): Promise<Found> {
    return id === undefined
      ? findIntent(stripe, reference, { pages, listMs }, deadline)
      : readIntent(stripe, id, reference, deadline);
  }

  /**
   * The outcome of a charge. A success and a decline of this reference are final. In every other case the reply may be an old one, which Stripe
   * has kept with the key, so the PaymentIntent is read again.
   */
  async function outcomeOf(reply: Reply, reference: string, deadline: AbortSignal): Promise<Answer> {
    if (isOfAnotherRequest(reply)) return afterEnding(reply, reference, deadline);
    const intent = intentIn(reply);
    if (!intent) return outcomeOfRefusal(reply);
    const replied = foundIf(intent, reference);
    if (replied.state === 'foreign') return wrongSetUp(replied.cause);
    if (isDeclineOf(intent, reply)) return outcomeOfRefusal(reply);
    if (intent.status === 'succeeded') return outcomeOfIntent(intent, pendingMs);
    const found = await readIntent(stripe, intent.id, reference, deadline);
    return found.state === 'found' ? settled(found.intent, deadline) : unclear(504, found.cause);
  }

  /** The answer to a charge whose key is taken by an ending that came first, or by a request that only a person can explain. */
  async function afterEnding(reply: Reply, reference: string, deadline: AbortSignal): Promise<Answer> {
    const found = await find(reference, undefined, deadline);
    if (found.state === 'unclear') return unclear(504, found.cause);
    if (found.state === 'missing' && !found.everywhere) return unclear(504, 'the search does not show it yet');
    const isEnded = found.state === 'found' && isEnding(found.intent);
    return isEnded ? settled(found.intent, deadline) : outcomeOfRefusal(reply);
  }

  /**
   * The present state of a charge. A payment that is over is cancelled first, because the payer may have something that still confirms it;
   * then Stripe says how it ended.
   */
  async function settled(intent: PaymentIntent, deadline: AbortSignal): Promise<Answer> {
    if (!isOver(intent, pendingMs, Date.now())) return outcomeOfIntent(intent, pendingMs);
    const cancelled = await cancel(intent, isEnding(intent) ? BY_SHOP : BY_TIME, deadline);
    return 'intent' in cancelled ? outcomeOfIntent(cancelled.intent, pendingMs) : cancelled.problem;
  }

  /** Ends a charge, and says how it ended. 409 says that Stripe does not end it, and 425 that Stripe's answer is not known. */
  async function ended(found: Found, deadline: AbortSignal): Promise<Answer> {
    if (found.state === 'missing') return unclear(425, 'Stripe knows the key, and shows no charge with it');
    if (found.state === 'unclear') return unclear(425, found.cause);
    if (found.state === 'foreign') return wrongSetUp(found.cause);
    const cancelled = await cancel(found.intent, BY_SHOP, deadline);
    if ('problem' in cancelled) {
      const { status } = cancelled.problem;
      return status === 422 ? cancelled.problem : { ...cancelled.problem, status: 425 };
    }
    const { intent } = cancelled;
    if (isFinal(intent)) return outcomeOfIntent(intent, pendingMs);
    return { status: 409, body: { status: 'processing', id: intent.id } };
  }

  /**
   * Returns the PaymentIntent afterwards: cancelled, or in a state in which it cannot be cancelled. The request has no key, because Stripe
   * would keep a refusal with it.
   */
  async function cancel(
    intent: PaymentIntent,
    reason: string,
    deadline: AbortSignal,
  ): Promise<{ readonly intent: PaymentIntent } | { readonly problem: Answer }> {
    if (isFinal(intent)) return { intent };
    const path = `/v1/payment_intents/${intent.id}`;
    const parameters = { cancellation_reason: reason };
    const reply = await throughRateLimit(
      () => stripe.post(`${path}/cancel`, parameters, undefined, deadline),
      deadline,
    );
    const now = isUnexpectedState(reply) ? await stripe.get(path, {}, deadline) : reply;
    const after = now.state === 'answered' && now.status === 200 ? intentIn(now) : undefined;
    if (after?.id === intent.id) return { intent: after };
    if (after) return { problem: wrongSetUp(`Stripe answered about ${after.id}, and not about ${intent.id}`) };
    const problem = outcomeOfRefusal(now);
    // An answer to a cancellation is never a decline of the charge.
    return { problem: problem.status === 402 ? unclear(502, 'Stripe declined to cancel') : problem };
  }
}

async function throughRateLimit(send: () => Promise<Reply>, deadline: AbortSignal): Promise<Reply> {
  for (;;) {
    const reply = await send();
    if (!isRateLimited(reply)) return reply;
    const isOver = await pause(RATE_LIMIT_PAUSE_MS, false, { signal: deadline }).catch(() => true);
    if (isOver) return reply;
  }
}
