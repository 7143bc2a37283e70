/** The name of the simulated processor in rows, and in `PROCESSOR_URL` too. No URL has this name. */
export const SIMULATED = 'simulated';

/**
 * True if a store with payments of the processors `used` takes none of this one (rule P14). Simulated payments move no money. They never
 * begin in a store with a payment that was made at a processor, and no payment is made at a processor if all were simulated. An order that
 * was paid in one way would count as paid in the other.
 */
export function isRefused(processor: string, used: readonly string[]): boolean {
  const isReal = used.some((name) => name !== SIMULATED);
  return processor === SIMULATED ? isReal : used.length > 0 && !isReal;
}

/** The words for a store's place, as its operator sets it, and for how another one is set. */
export interface StoreWords {
  readonly place: string;
  readonly another: string;
}

/** Why a service with this processor serves nothing on a store, and what to do. Undefined if it may. */
export function refusalOf(
  processor: string,
  used: readonly string[],
  { place, another }: StoreWords,
): string | undefined {
  if (!isRefused(processor, used)) return undefined;
  if (processor !== SIMULATED) {
    return `All payments in ${place} were simulated and moved no money, and their orders would count as paid: set ${another}, or stop every service on this one and remove them with 'idempay simulated discard --yes', which keeps the transactions.`;
  }
  const names = used.filter((name) => name !== SIMULATED).join(', ');
  return `Payments in ${place} were made at ${names}, so nothing is simulated there, where an order would be answered as paid although no money moves: set PROCESSOR_URL to the processor that moves the money.`;
}

/** A store's knowledge about the processors of its payments. */
export interface ClaimedProcessors {
  /** Every name under which a payment was claimed. */
  readonly used: readonly string[];
  /** The processors of the last day before rows were lost. Undefined if any processor may be asked about a lost row. */
  readonly beforeLoss: readonly string[] | undefined;
}

/**
 * The reason why nothing is sent or closed for a key whose row may be lost (rule P14). The lost row may have been charged at another
 * processor, and this one would say that it has no record. Undefined if there is no such reason.
 */
export function lossRefusalOf(own: readonly string[], { beforeLoss }: ClaimedProcessors): string | undefined {
  if (!beforeLoss || beforeLoss.some((name) => own.includes(name))) return undefined;
  const others = beforeLoss.length > 0 ? beforeLoss.join(', ') : 'a processor that no row names';
  return `Rows were lost, and the payments of the day before were made at ${others}, not at ${own[0]}: nothing is sent or closed for a key or reference whose row may be lost. If it is the same account, add its name to PROCESSOR_FORMER_NAMES. If not, compare the charges there with the payments, then set PROCESSOR_LOST_ROWS=accept and restart`;
}

/** Completed payments of each processor, among the oldest payments of a store. */
export interface PaidCounts {
  readonly byProcessor: ReadonlyMap<string, number>;
  /** There may be more payments than were looked at. */
  readonly isPart: boolean;
}

/**
 * Warnings for an operator about orders that were paid at another processor than the service's. `own`: every name of the service's
 * processor. `used`: the names under which payments were claimed.
 */
export function warningsOf(own: readonly string[], used: readonly string[], paid: PaidCounts): string[] {
  if (own.includes(SIMULATED)) return [];
  const others = used.filter((name) => name !== SIMULATED && !own.includes(name));
  const simulated = used.includes(SIMULATED) ? ordersOf([SIMULATED], paid) : undefined;
  const elsewhere = others.length > 0 ? ordersOf(others, paid) : undefined;
  return [
    simulated &&
      `${simulated} as paid by simulated payments, which moved no money: list them with 'idempay payments list --processor simulated', and take the money under other references`,
    elsewhere &&
      `${elsewhere} as paid at another processor (${others.join(', ')}), and the present one never charges them: if that was a sandbox, take the money under other references`,
  ].filter((sentence) => sentence !== undefined);
}

/** The beginning of a sentence. Undefined if there are none. */
function ordersOf(names: readonly string[], { byProcessor, isPart }: PaidCounts): string | undefined {
  const orders = names.reduce((sum, name) => sum + (byProcessor.get(name) ?? 0), 0);
  if (orders === 0) return isPart ? 'Some orders in this store count' : undefined;
  return `${isPart ? 'At least ' : ''}${orders} ${orders === 1 ? 'order in this store counts' : 'orders in this store count'}`;
}
