import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { Processor } from '#idempay/payments/ports/processor.js';
import type { RefundLedger } from '#idempay/payments/ports/refund-ledger.js';
import type { TransactionCache } from '#idempay/transactions/ports/transaction-cache.js';
import type { TransactionStore } from '#idempay/transactions/ports/transaction-store.js';
import { ROOT } from '../programs.js';

/** The ports with crash points: every step that changes something outside the process. */
interface CrashablePorts {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly refunds: RefundLedger;
  readonly processor: Processor;
  readonly transactions: TransactionStore;
  readonly transactionCache: TransactionCache;
}

/** The operations of each port that have a point before and one after them, and the points' names. */
const STEPS: { readonly [Port in keyof CrashablePorts]: Partial<Record<keyof CrashablePorts[Port], string>> } = {
  keys: { issue: 'issue', begin: 'begin', finish: 'finish', release: 'release', forget: 'forget' },
  ledger: {
    claim: 'claim',
    cancel: 'cancel',
    takeOver: 'take-over',
    takeOverDue: 'take-over-due',
    beginEnding: 'begin-ending',
    duePending: 'due-pending',
    movePending: 'move-pending',
    leave: 'leave',
    renew: 'renew-lease',
    settle: 'settle',
    abandon: 'abandon',
    resolve: 'resolve',
    removeSettled: 'remove-settled',
  },
  refunds: { claimRefund: 'claim-refund' },
  processor: { charge: 'charge', lookUp: 'look-up', end: 'end', refund: 'refund', lookUpRefund: 'look-up-refund' },
  transactions: { create: 'create', createAll: 'create-all', changeStatus: 'change', remove: 'remove' },
  transactionCache: { lookUp: 'cache-look-up', fill: 'fill', mark: 'mark', refresh: 'refresh', evict: 'evict' },
};

/** The place that `crash-at.mjs` reads, by the name of its point: `before-claim`, `after-claim` ... */
const PLACES: ReadonlyMap<string, string> = new Map(
  Object.entries(STEPS).flatMap(([port, steps]) =>
    Object.entries(steps).flatMap(([operation, step]) =>
      ['before', 'after'].map((side) => [`${side}-${step}`, `${side} ${port} ${operation}`] as const),
    ),
  ),
);
export const CRASH_POINTS: readonly string[] = [...PLACES.keys()];

const preload = (file: string) => `--import=${pathToFileURL(join(ROOT, 'testkit', 'processes', file)).href}`;
const PRELOAD = preload('crash-at.mjs');

/** The environment of a service that kills itself when it reaches a point for the nth time. `at`: `point:nth`. */
export function crashAt(at: string): { readonly NODE_OPTIONS: string; readonly CRASH_AT: string } {
  const [, point = '', nth = ''] = /^([a-z-]+):([1-9]\d*)$/.exec(at) ?? [];
  const place = PLACES.get(point);
  if (!place) throw new Error(`'${at}' must be point:nth with nth from 1, and a point of ${CRASH_POINTS.join(', ')}`);
  return { NODE_OPTIONS: PRELOAD, CRASH_AT: `${place} ${nth}` };
}

/** The steps of `idempay transfer`, of its way back, and of the first start on its target. */
export const TRANSFER_STEPS = {
  transfer: [
    'folder leave',
    'target create',
    'redis claim',
    'target copy',
    'redis issue',
    'target copyRest',
    'target beginSettlementsBehind',
    'folder markCopied',
    'target complete',
  ],
  cancel: ['target giveUp', 'redis giveUp', 'folder free'],
  start: ['redis claim', 'service startTransferred', 'redis start'],
} as const;

/** The environment of a command or service that kills itself before or after a step, when it reaches it for the nth time. */
export function crashAtTransfer(side: 'before' | 'after', step: string, nth = 1) {
  return { NODE_OPTIONS: preload('crash-at-transfer.mjs'), CRASH_AT: `${side} ${step} ${nth}` };
}
