import { UsageError } from '../usage.js';

const DAY_MS = 86_400_000;
const DAY_LENGTH = '2026-11-20'.length;
/** The days next to it must have years of four digits, too. */
const [FIRST, LAST] = ['0001-01-01', '9999-12-30'];

/** Throws UsageError for what is no day of the calendar. */
export function checkedDay(text: string): string {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  const isDay = !Number.isNaN(ms) && dayOf(ms) === text && text >= FIRST && text <= LAST;
  if (!isDay) throw new UsageError('--day takes a day of the calendar such as 2026-11-24.');
  return text;
}

/** The day so many days after it; UTC. */
export function dayAfter(day: string, days: number): string {
  return dayOf(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS);
}

/** Whether the day is over in UTC. */
export function hasEnded(day: string, nowMs: number): boolean {
  return nowMs >= Date.parse(`${day}T00:00:00Z`) + DAY_MS;
}

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, DAY_LENGTH);
