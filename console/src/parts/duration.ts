const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const;

/** A span in at most two units of the reader's language: `1 hr, 20 min`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return unitText(Math.max(0, Math.round(ms)), 'millisecond');
  let seconds = Math.round(ms / 1_000);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    seconds -= count * size;
    if (count > 0) parts.push(unitText(count, unit));
    if (parts.length === 2 || (parts.length === 1 && seconds === 0)) break;
  }
  return parts.join(' ');
}

function unitText(value: number, unit: string): string {
  return new Intl.NumberFormat(undefined, { style: 'unit', unit, unitDisplay: 'short' }).format(value);
}

/** When to send again what an answer refused: ` in 5 s`, or ` later`. */
export function retryText(headers: Headers): string {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  return Number.isNaN(seconds) ? ' later' : ` in ${durationText(seconds * 1_000)}`;
}
