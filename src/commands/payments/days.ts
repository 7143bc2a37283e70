import { isDay } from '../../statements/days.js';
import { UsageError } from '../usage.js';

/** The days next to it must have years of four digits, too. */
const [FIRST, LAST] = ['0001-01-01', '9999-12-30'];

/** Throws UsageError for what is no day of the calendar. */
export function checkedDay(text: string): string {
  if (!isDay(text) || text < FIRST || text > LAST)
    throw new UsageError('--day takes a day of the calendar such as 2026-11-24.');
  return text;
}
