// The payments of a filled deployment. Everything about payment number i follows from i, so that three stores can make the same rows in
// place, and a client can name the key of any of them.

const HOUR_MS = 3_600_000;
/** How long this deployment has run, as its tables say: long enough that the first hour may be removed, with PAYMENT_RETENTION_DAYS=1. */
const HOURS_SEEN = 80;
/** The rows that the sweeps have to remove. */
const OLD_PAYMENTS = 200_000;
/** The keys of the others were generated within these last hours, so that all of them still live. */
const FRESH_HOURS = 20;
const OLD_SPREAD_MS = HOUR_MS / 2;
const KEY_LIFE_MS = 24 * HOUR_MS;

/** Odd multipliers, so that neighbours differ in every part of a key. */
const [FIRST_STEP, SECOND_STEP, LAST_STEP] = [2731, 1597, 7919];

/** Payments that were made evenly over some time. */
export interface Series {
  /** Number of its first payment. */
  readonly first: number;
  readonly count: number;
  /** Since the epoch. */
  readonly fromMs: number;
  readonly spreadMs: number;
  readonly keyLifeMs: number;
}

export interface Plan {
  readonly count: number;
  readonly beganMs: number;
  readonly old: Series;
  readonly fresh: Series;
}

/** How a database writes a number. */
interface Dialect {
  hex(value: string, digits: number): string;
  padded(value: string, digits: number): string;
}

export function planFor(count: number, nowMs: number): Plan {
  const beganMs = nowMs - HOURS_SEEN * HOUR_MS;
  const common = { keyLifeMs: KEY_LIFE_MS };
  const freshMs = FRESH_HOURS * HOUR_MS;
  return {
    count,
    beganMs,
    old: {
      first: count + 1,
      count: count === 0 ? 0 : OLD_PAYMENTS,
      fromMs: beganMs,
      spreadMs: OLD_SPREAD_MS,
      ...common,
    },
    fresh: { first: 1, count, fromMs: nowMs - freshMs, spreadMs: freshMs, ...common },
  };
}

/** One row of `retention_hours` for each hour that this deployment has run until now. */
export function hoursOf({ beganMs }: Plan, nowMs: number) {
  return Array.from({ length: Math.ceil((nowMs - beganMs) / HOUR_MS) }, (_, index) => {
    const untilMs = Math.min((index + 1) * HOUR_MS, nowMs - beganMs);
    // As late as it may be: what expires in the next hour is then removed by the clock, and not by the time that was seen.
    return {
      hour: index + 1,
      fromMs: index * HOUR_MS,
      untilMs,
      lowestKeyMs: beganMs + untilMs,
      clockMs: beganMs + untilMs,
    };
  });
}

export function keyOf(series: Series, number: number): string {
  const time = hex(timeOf(series, number), 12);
  const part = (step: number) => hex((number * step) % 4096, 3);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${part(FIRST_STEP)}-8${part(SECOND_STEP)}-${hex(number * LAST_STEP, 12)}`;
}

export function transactionIdOf(series: Series, number: number): string {
  const micros = timeOf(series, number) * 1000 + (number % 1000);
  return `TXN${micros}${String(number % 1_000_000).padStart(6, '0')}`;
}

function timeOf({ first, count, fromMs, spreadMs }: Series, number: number): number {
  return fromMs + Math.floor(((number - first) * spreadMs) / count);
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** The same in SQL, for a row that has the number as `n`. */
export function sqlOf(series: Series, beganMs: number, { hex, padded }: Dialect) {
  const { first, count, fromMs, spreadMs, keyLifeMs } = series;
  const timeMs = `(${fromMs} + (n - ${first}) * ${spreadMs} / ${count})`;
  const time = hex(timeMs, 12);
  const part = (step: number) => hex(`n * ${step} % 4096`, 3);
  return {
    key: `substr(${time}, 1, 8) || '-' || substr(${time}, 9) || '-7' || ${part(FIRST_STEP)} || '-8' || ${part(SECOND_STEP)}
      || '-' || ${hex(`n * ${LAST_STEP}`, 12)}`,
    transactionId: `'TXN' || (${timeMs} * 1000 + n % 1000) || ${padded('n % 1000000', 6)}`,
    timeMs,
    expiresMs: `(${timeMs} + ${keyLifeMs})`,
    hour: `(${timeMs} - ${beganMs}) / ${HOUR_MS} + 1`,
  };
}

/** And in Lua, as the beginning of a script that has `n`: sets `key`, `transaction_id` and `expires_ms`. */
export function luaOf({ first, count, fromMs, spreadMs, keyLifeMs }: Series): string {
  return `
    local ms = ${fromMs} + math.floor((n - ${first}) * ${spreadMs} / ${count})
    local high = math.floor(ms / 65536)
    local key = string.format('%08x-%04x-7%03x-8%03x-%06x%06x', high, ms - high * 65536, n * ${FIRST_STEP} % 4096,
      n * ${SECOND_STEP} % 4096, math.floor(n * ${LAST_STEP} / 16777216), n * ${LAST_STEP} % 16777216)
    local transaction_id = string.format('TXN%.0f%06d', ms * 1000 + n % 1000, n % 1000000)
    local expires_ms = string.format('%.0f', ms + ${keyLifeMs})`;
}

/** The numbers of `wanted` payments, spread evenly over the series, in random order. */
export function numbersOver({ first, count }: Series, wanted: number): number[] {
  const numbers = Array.from({ length: Math.min(wanted, count) }, (_, index) => {
    return first + Math.floor((index * count) / Math.min(wanted, count));
  });
  // Fisher-Yates: what is asked one after the other must not lie on one page.
  for (let last = numbers.length - 1; last > 0; last -= 1) {
    const other = Math.floor(Math.random() * (last + 1));
    [numbers[last], numbers[other]] = [numbers[other] ?? 0, numbers[last] ?? 0];
  }
  return numbers;
}
