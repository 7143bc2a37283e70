import { hashOf, type Route } from '../navigation/route.js';

/** The filters of a list; in the address, so that it can be shared. */
export interface Filters {
  /** A text that was typed: it is looked for in each meaning that it may have. */
  readonly search: string;
  /** A whole order number, as the client sent it. */
  readonly reference: string;
  /** The beginning of a key or of a transaction id. */
  readonly find: string;
  /** `refund` or `all`; empty: payments. */
  readonly kind: string;
  readonly state: string;
  /** `true`: only payments that wait for their payer, or for a bank. */
  readonly pending: string;
  /** Moments in UTC, as the service takes them. */
  readonly from: string;
  readonly to: string;
  readonly processor: string;
}

export function filtersOf({ query }: Route): Filters {
  const text = (name: string) => query.get(name) ?? '';
  return {
    search: text('search'),
    reference: text('reference'),
    find: text('find'),
    kind: text('kind'),
    state: text('state'),
    pending: text('pending'),
    from: text('from'),
    to: text('to'),
    processor: text('processor'),
  };
}

export const NO_FILTERS: Filters = {
  search: '',
  reference: '',
  find: '',
  kind: '',
  state: '',
  pending: '',
  from: '',
  to: '',
  processor: '',
};

export const hashOfFilters = (filters: Partial<Filters>) => hashOf('payments', '', { ...filters });

/** For a `datetime-local` field, in the reader's zone; empty for text that is no moment. */
export function localMoment(text: string): string {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) return '';
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The value of such a field, as a moment in UTC. */
export function utcMoment(local: string): string {
  const ms = local === '' ? Number.NaN : new Date(local).getTime();
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString();
}
