import type { Clock } from '../platform/clock.js';
import type { PendingAnswer } from './answers.js';
import { lookUpPending } from './asking.js';
import type { PaymentEvents } from './context.js';
import type { Action, LookUpResult, Processor } from './ports/processor.js';
import type { PendingPayment } from './values/payment.js';

/** The shortest time between two questions of a process about one pending payment. Meanwhile the last reply is passed on (rule P24). */
const FRESH_MS = 1_000;
/** The highest number of remembered payments, with actions of up to 16 KiB each. A payment beyond it costs a question, or a lock. */
const MOST_REMEMBERED = 1_000;
/** A page asks again every 5 seconds while its payer has an hour, and every minute for a bank transfer. */
const SHARE_OF_TIME_LEFT = 1 / 720;
const SHORTEST_RETRY_SECONDS = 2;
const LONGEST_RETRY_SECONDS = 60;

/** The questions that requests and recovery ask about pending payments. They take no lock and no lease, and write nothing. */
export interface PendingLooks {
  /** The processor's reply of the last second, or a new one, which concurrent requests share. If it has no record, that is reported once. */
  ask(payment: PendingPayment): Promise<LookUpResult>;
  /** Remembers the reply that an execution got. */
  note(key: string, said: LookUpResult): void;
  /** True if this process knew the payment as pending a while ago: then its row is read before a lock is taken. */
  mayBePending(key: string): boolean;
  /** Forgets a payment that is final. */
  forget(key: string): void;
  answer(payment: PendingPayment): PendingAnswer;
}

interface Look {
  readonly askedAt: number;
  readonly said: Promise<LookUpResult>;
  /** The reply; undefined until it has arrived. */
  answered?: LookUpResult;
}

export function createPendingLooks({
  processor,
  clock,
  events,
}: {
  processor: Pick<Processor, 'lookUp' | 'lookUpRefund'>;
  clock: Clock;
  events: Pick<PaymentEvents, 'forgotten'>;
}): PendingLooks {
  /** The entries, in the order in which they were remembered. */
  const looks = new Map<string, Look>();

  function remember(key: string, look: Look): void {
    looks.delete(key);
    looks.set(key, look);
    if (looks.size > MOST_REMEMBERED) looks.delete(looks.keys().next().value as string);
  }

  function freshLook(key: string): Look | undefined {
    const look = looks.get(key);
    return look && clock.monotonic() - look.askedAt < FRESH_MS ? look : undefined;
  }

  async function lookUp(payment: PendingPayment): Promise<LookUpResult> {
    const said = await lookUpPending(processor, payment);
    if (said.state === 'no record') events.forgotten?.(payment);
    return said;
  }

  /** The action of the last second. Only the payer gets it. */
  function actionOf(key: string): Action | undefined {
    const said = freshLook(key)?.answered;
    return said?.state === 'pending' ? said.action : undefined;
  }

  return {
    ask(payment) {
      const { key } = payment;
      const fresh = freshLook(key);
      if (fresh) return fresh.said;
      const look: Look = { askedAt: clock.monotonic(), said: lookUp(payment) };
      look.said.then(
        (said) => {
          look.answered = said;
        },
        () => {},
      );
      remember(key, look);
      return look.said;
    },

    note: (key, said) => remember(key, { askedAt: clock.monotonic(), said: Promise.resolve(said), answered: said }),

    mayBePending: (key) => looks.has(key),

    forget(key) {
      looks.delete(key);
    },

    answer(payment) {
      const leftMs = payment.untilMs - clock.now();
      const seconds = Math.round((leftMs / 1000) * SHARE_OF_TIME_LEFT);
      const retryAfterSeconds = Math.min(LONGEST_RETRY_SECONDS, Math.max(SHORTEST_RETRY_SECONDS, seconds));
      // A payer who confirmed while it is ended would only be told that the order is closed.
      const action = payment.ending ? undefined : actionOf(payment.key);
      return { state: 'pending', payment, action, retryAfterSeconds };
    },
  };
}
