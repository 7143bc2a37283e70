import type { KeyStore } from './payments/ports/key-store.js';
import type { Ledger } from './payments/ports/ledger.js';
import type { Processor } from './payments/ports/processor.js';
import { decoratedEach } from './platform/decorated.js';
import type { TransactionCache } from './transactions/ports/transaction-cache.js';
import type { TransactionStore } from './transactions/ports/transaction-store.js';

/** The ports with crash points: every step that changes something outside the process. */
export interface CrashablePorts {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly processor: Processor;
  readonly transactions: TransactionStore;
  readonly transactionCache: TransactionCache;
}

/** The nth time this point is reached the process ends, as if it had been killed from outside. */
export interface CrashAt {
  readonly point: string;
  readonly nth: number;
}

/** The operations of each port that have a point before and one after them, and the points' names. */
const STEPS: { readonly [Port in keyof CrashablePorts]: Partial<Record<keyof CrashablePorts[Port], string>> } = {
  keys: { issue: 'issue', begin: 'begin', finish: 'finish', release: 'release', forget: 'forget' },
  ledger: {
    claim: 'claim',
    cancel: 'cancel',
    takeOver: 'take-over',
    takeOverDue: 'take-over-due',
    renew: 'renew-lease',
    settle: 'settle',
    abandon: 'abandon',
    resolve: 'resolve',
    removeSettled: 'remove-settled',
  },
  processor: { charge: 'charge', lookUp: 'look-up' },
  transactions: { create: 'create', createAll: 'create-all', changeStatus: 'change', remove: 'remove' },
  transactionCache: { lookUp: 'cache-look-up', fill: 'fill', mark: 'mark', refresh: 'refresh', evict: 'evict' },
};

/** Every name that `CRASH_AT` knows: `before-claim`, `after-claim` ... */
export const CRASH_POINTS: readonly string[] = Object.values(STEPS).flatMap((steps) =>
  Object.values(steps).flatMap((step) => [`before-${step}`, `after-${step}`]),
);
export const CRASH_AT_FORM = `point:nth, where nth is at least 1 and point is one of ${CRASH_POINTS.join(', ')}`;

export function readCrashAt(text: string): CrashAt | undefined {
  const [, point = '', nth = ''] = /^([a-z-]+):([1-9]\d{0,8})$/.exec(text) ?? [];
  return CRASH_POINTS.includes(point) ? { point, nth: Number(nth) } : undefined;
}

/**
 * The ports with a crash at one point, where `die` is called. Without `CRASH_AT` this function is not called, so that
 * features use the ports directly. A step that fails does not reach its `after-` point.
 */
export function withCrashPoint<Ports extends CrashablePorts>(
  ports: Ports,
  at: CrashAt,
  die: () => void = killThisProcess,
): Ports {
  let left = at.nth;
  function reach(point: string): void {
    if (point !== at.point) return;
    left -= 1;
    if (left === 0) die();
  }

  function trapped<Port extends object>(port: Port, steps: Partial<Record<keyof Port, string>>): Port {
    return decoratedEach(port, (next, name) => {
      const step = steps[name];
      if (step === undefined) return next;
      return async (...args: unknown[]): Promise<unknown> => {
        reach(`before-${step}`);
        const result = await next(...args);
        reach(`after-${step}`);
        return result;
      };
    });
  }

  return {
    ...ports,
    keys: trapped<KeyStore>(ports.keys, STEPS.keys),
    ledger: trapped<Ledger>(ports.ledger, STEPS.ledger),
    processor: trapped<Processor>(ports.processor, STEPS.processor),
    transactions: trapped<TransactionStore>(ports.transactions, STEPS.transactions),
    transactionCache: trapped<TransactionCache>(ports.transactionCache, STEPS.transactionCache),
  };
}

/** The kernel ends a process that signals itself before the call returns: no line after it is run. */
function killThisProcess(): void {
  process.kill(process.pid, 'SIGKILL');
}
