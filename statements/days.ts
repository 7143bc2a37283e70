const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_MS = 86_400_000;
const DAY_LENGTH = '2026-11-20'.length;

/** The day `days` days after it; UTC. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, DAY_LENGTH);
}

export const todayUtc = () => new Date().toISOString().slice(0, DAY_LENGTH);

/** True if it is a day of the calendar. */
export function isDay(text: string): boolean {
  const ms = DAY.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

/** The last day of a month such as `2026-10`; undefined for text that is no month. */
export function lastDayOf(month: string): string | undefined {
  if (!/^\d{4}-\d{2}$/.test(month)) return undefined;
  return ['31', '30', '29', '28'].map((day) => `${month}-${day}`).find(isDay);
}
