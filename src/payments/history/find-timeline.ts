import type { Clock } from '../../platform/clock.js';
import type { KeyStore } from '../ports/key-store.js';
import type { PaymentHistory, PaymentLife } from '../ports/payment-history.js';
import { keyTimeOf } from '../values/key-time.js';
import { isVisibleTo } from '../values/payment.js';
import { isComputed } from '../values/reference.js';
import { pay, type TimelineRules, underWay } from './payment-next.js';
import { issuedEvents, type Timeline, timelineOf } from './payment-timeline.js';

/** Undefined where `PaymentRecords.get` is: also of another client's key, with the same calls to the stores. */
export type FindTimeline = (key: string, client?: string) => Promise<Timeline | undefined>;

export function createFindTimeline(collaborators: {
  keys: KeyStore;
  history: PaymentHistory;
  rules: TimelineRules;
  clock: Clock;
}): FindTimeline {
  const { keys, history, rules, clock } = collaborators;

  async function withNext(life: PaymentLife, client: string | undefined): Promise<Timeline> {
    const { reference, client: owner } = life.payment;
    const newest = reference === undefined ? undefined : await history.newestAttempt(reference, owner);
    return timelineOf(life, rules, client, newest?.attempt);
  }

  return async function findTimeline(key, client) {
    const life = await history.findLife(key);
    if (life && isVisibleTo(client, life.payment.client)) return withNext(life, client);
    const looked = await keys.look(key, client);
    switch (looked.state) {
      case 'absent':
        return undefined;
      case 'final': {
        // It was claimed and settled after the row was looked for.
        const settled = await history.findLife(key);
        return settled && withNext(settled, client);
      }
      default: {
        const next =
          looked.state === 'locked'
            ? underWay(clock.now() + looked.remainingMs)
            : pay(isComputed(key) ? undefined : keyTimeOf(key) + rules.idempotencyTtlMs);
        return { key, state: 'PENDING', events: issuedEvents(key), omitted: 0, next };
      }
    }
  };
}
