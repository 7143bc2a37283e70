import type { KeyStore } from '../../payments/ports/key-store.js';
import type { Ledger } from '../../payments/ports/ledger.js';
import type { Processor } from '../../payments/ports/processor.js';
import type { TransactionCache } from '../../transactions/ports/transaction-cache.js';
import type { TransactionStore } from '../../transactions/ports/transaction-store.js';

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
  keys: { issue: 'issue', begin: 'begin', finish: 'finish', release: 'release' },
  ledger: {
    claim: 'claim',
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
export function withCrashPoint(ports: CrashablePorts, at: CrashAt, die: () => void = killThisProcess): CrashablePorts {
  let left = at.nth;
  const reach = (point: string) => {
    if (point !== at.point) return;
    left -= 1;
    if (left === 0) die();
  };
  return {
    keys: trapped(ports.keys, STEPS.keys, reach),
    ledger: trapped(ports.ledger, STEPS.ledger, reach),
    processor: trapped(ports.processor, STEPS.processor, reach),
    transactions: trapped(ports.transactions, STEPS.transactions, reach),
    transactionCache: trapped(ports.transactionCache, STEPS.transactionCache, reach),
  };
}

function trapped<Port extends object>(
  port: Port,
  steps: Partial<Record<keyof Port, string>>,
  reach: (point: string) => void,
): Port {
  return new Proxy(port, {
    get(target, member) {
      const value: unknown = Reflect.get(target, member, target);
      if (typeof value !== 'function') return value;
      const step = steps[member as keyof Port];
      if (step === undefined) return value.bind(target);
      return async (...args: unknown[]): Promise<unknown> => {
        reach(`before-${step}`);
        const result: unknown = await value.apply(target, args);
        reach(`after-${step}`);
        return result;
      };
    },
  });
}

/** The kernel ends a process that signals itself before the call returns: no line after it is run. */
function killThisProcess(): void {
  process.kill(process.pid, 'SIGKILL');
}
