// What the environment says about a run of the benchmark; bench/run.mjs lists the variables.

export const DEPLOYMENTS = ['embedded', 'distributed'];

export const options = {
  seconds: wholeNumber('BENCH_SECONDS', 2),
  rounds: wholeNumber('BENCH_ROUNDS', 5),
  connections: wholeNumber('BENCH_CONNECTIONS', 64),
  rows: list('BENCH_ROW'),
  also: list('BENCH_ALSO'),
  before: process.env.BENCH_BEFORE,
};

/** Whether BENCH_ROW asks for it: without it for each. */
export function isAsked(row) {
  return options.rows.length === 0 || options.rows.some((beginning) => row.startsWith(beginning));
}

/** The one that is named, else the embedded one. */
export function deploymentOf(name = 'embedded') {
  if (DEPLOYMENTS.includes(name)) return name;
  throw new Error(`there is no deployment '${name}'; there are ${DEPLOYMENTS.join(' and ')}`);
}

function list(name) {
  return (process.env[name] ?? '').split(',').filter(Boolean);
}

function wholeNumber(name, fallback) {
  const text = process.env[name];
  if (!text) return fallback;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  console.error(`${name} must be a whole number above 0, not '${text}'`);
  process.exit(1);
}
