/**
 * The step in which witnessed time is kept (docs/engineering/decisions/0017). One look counts this much at most: a process that stood
 * still for longer did not see the rest. And by this much a payment is kept longer than asked, for clocks that differ.
 */
export const HOUR_MS = 3_600_000;
