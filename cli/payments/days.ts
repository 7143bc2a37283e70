import { isDay, lastDayOf } from '#idempay/statements/days.js';
import { UsageError } from '../usage.js';

/** The days next to it must have years of four digits, too. */
const [FIRST, LAST] = ['0001-01-01', '9999-12-30'];

/** Throws UsageError for text that is no day of the calendar. */
export function checkedDay(text: string, option = '--day'): string {
  if (!isDay(text) || text < FIRST || text > LAST)
    throw new UsageError(`${option} takes a day of the calendar such as 2026-11-24.`);
  return text;
}

export interface DayOptions {
  readonly day?: string | undefined;
  readonly month?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The first and the last day; both are included. */
export function daysOf({ day, month, from, to }: DayOptions): { readonly first: string; readonly last: string } {
  const isRange = from !== undefined || to !== undefined;
  if ([day !== undefined, month !== undefined, isRange].filter(Boolean).length !== 1)
    throw new UsageError('Give --day, or --month, or --from and --to.');
  if (day !== undefined) return { first: checkedDay(day), last: day };
  if (month !== undefined) {
    const last = lastDayOf(month);
    if (last === undefined) throw new UsageError('--month takes a month such as 2026-10.');
    return { first: checkedDay(`${month}-01`, '--month'), last };
  }
  if (from === undefined || to === undefined)
    throw new UsageError('--from and --to belong together: the first day and the last one.');
  const [first, last] = [checkedDay(from, '--from'), checkedDay(to, '--to')];
  if (last < first) throw new UsageError('--to is the last day, and may not be before --from.');
  return { first, last };
}
