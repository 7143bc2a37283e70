/** One core at its full speed takes about this long for the computation below. */
const USUAL_MS = 30;
const STEPS = 20_000_000;
/** A test that waits even longer has found a failure, and not a slow machine. */
const MOST_TIMES = 10;
/** A machine with other work may add this much to a promised time, without being slow. */
const SLACK_MS = 3_000;
/** The load changes while a worker runs one file after the other; a measure each ten seconds costs at most half a percent. */
const MEASURED_EVERY_MS = 10_000;

let measured = { atMs: Number.NEGATIVE_INFINITY, times: 1 };

/**
 * The whole milliseconds that a test waits for others at most: `ms` on a machine with a free core, and up to ten times as much on a slower one.
 * It measures the wall clock of a fixed computation, because that shows a slow core, a core shared with others and a quota alike. The
 * computation is longer than what a quota grants at once (ten of 100 ms, if it is a tenth of a core), so that it is interrupted too.
 */
export function patience(ms: number): number {
  const nowMs = performance.now();
  if (nowMs - measured.atMs > MEASURED_EVERY_MS) {
    compute();
    const times = (performance.now() - nowMs) / USUAL_MS;
    measured = { atMs: nowMs, times: Math.min(Math.max(times, 1), MOST_TIMES) };
  }
  return Math.ceil(ms * measured.times);
}

/** The most that a promised time may measure, because the machine adds to it too. */
export const withSlack = (promisedMs: number): number => promisedMs + patience(SLACK_MS);

/** A machine's clock is set back by some milliseconds now and then. */
const USUALLY_SET_BACK_MS = 50;

/** The clock of a store never runs back: it may be ahead by this much, by which the machine's clock was set back since this process began. */
export function clockSetBackMs(): number {
  return USUALLY_SET_BACK_MS + Math.max(0, performance.timeOrigin + performance.now() - Date.now());
}

/** For a test that only computes, or lasts as long as its caller asks. A whole run has a limit (`run-limit-reporter.ts`). */
export const WITHOUT_LIMIT = { timeout: 0 };

function compute(): number {
  let value = 1;
  for (let step = 0; step < STEPS; step += 1) value = Math.imul(value ^ step, 0x9e3779b1);
  return value;
}
