import type { ComponentType } from 'preact';
import type { Scope } from '../access/session.js';
import type { ViewProperties } from './route.js';

export interface View {
  /** In the address: `#/NAME`. */
  readonly name: string;
  readonly label: string;
  /** One of these is needed; empty: any credential may see it. */
  readonly scopes: readonly Scope[];
  /** Reached from another view, and not from the navigation; names the entry that is marked meanwhile. */
  readonly within?: string;
  load(): Promise<{ readonly default: ComponentType<ViewProperties> }>;
}

/** In the order of the navigation. The console opens with the first that the credential may see. */
export const VIEWS: readonly View[] = [
  { name: 'live', label: 'Live', scopes: ['metrics'], load: () => import('../live/live-view.js') },
  {
    name: 'payments',
    label: 'Payments',
    scopes: ['payments:read', 'operations', 'payments:read:all'],
    load: () => import('../payments/payments-view.js'),
  },
  {
    name: 'payment',
    label: 'Payment',
    scopes: ['payments:read', 'operations', 'payments:read:all'],
    within: 'payments',
    load: () => import('../payments/payment-view.js'),
  },
  {
    name: 'settlements',
    label: 'Settlements',
    scopes: ['payments:read', 'operations'],
    within: 'payments',
    load: () => import('../settlements/settlements-view.js'),
  },
  {
    name: 'reconciliation',
    label: 'Reconciliation',
    scopes: ['operations', 'payments:read:all'],
    load: () => import('../reconciliation/reconciliation-view.js'),
  },
  {
    name: 'transactions',
    label: 'Transactions',
    scopes: ['transactions:read'],
    load: () => import('../transactions/transactions-view.js'),
  },
  { name: 'webhooks', label: 'Webhooks', scopes: ['operations'], load: () => import('../webhooks/webhooks-view.js') },
  { name: 'try-it', label: 'Try it', scopes: ['payments:write'], load: () => import('../try-it/try-it-view.js') },
  { name: 'service', label: 'Service', scopes: [], load: () => import('../service/service-view.js') },
];
