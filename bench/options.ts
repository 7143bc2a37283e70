export const DEPLOYMENTS = ['embedded', 'distributed'] as const;
export type Deployment = (typeof DEPLOYMENTS)[number];

export type Options = ReturnType<typeof readOptions>;

/** The settings of a run of the benchmark, from the environment; `main.ts` lists the variables. Throws a sentence for a wrong one. */
export function readOptions() {
  return {
    seconds: wholeNumber('BENCH_SECONDS', 2),
    rounds: wholeNumber('BENCH_ROUNDS', 5),
    connections: wholeNumber('BENCH_CONNECTIONS', 64),
    rows: list('BENCH_ROW'),
    also: list('BENCH_ALSO'),
    before: process.env.BENCH_BEFORE || undefined,
    node24: process.env.BENCH_NODE24 || undefined,
    soakMinutes: wholeNumber('SOAK_MINUTES', 60),
    soakRoundsPerSecond: wholeNumber('SOAK_ROUNDS_PER_SECOND', 60),
    scalingOperations: wholeNumber('SCALING_OPERATIONS', 12_000),
  };
}

/** True if BENCH_ROW asks for the row; without BENCH_ROW every row is asked for. */
export function isAsked({ rows }: Pick<Options, 'rows'>, row: string): boolean {
  return rows.length === 0 || rows.some((beginning) => row.startsWith(beginning));
}

/** If none is named, the embedded one. */
export function deploymentOf(name: string = 'embedded'): Deployment {
  const deployment = DEPLOYMENTS.find((each) => each === name);
  if (deployment) return deployment;
  throw new Error(`there is no deployment '${name}'; there are ${DEPLOYMENTS.join(' and ')}`);
}

function list(name: string): string[] {
  return (process.env[name] ?? '').split(',').filter(Boolean);
}

function wholeNumber(name: string, fallback: number): number {
  const text = process.env[name];
  if (!text) return fallback;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new Error(`${name} must be a whole number above 0, not '${text}'`);
}
