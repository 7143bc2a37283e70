// `npm run bench`: a deployment next to its peers, in one run. Only ratios within a run mean anything: the same row moves by a
// fifth within minutes on a shared machine, but all servers of a round meet the same minute.
//
//   npm run bench [-- deployment]                    requests a second, next to a bare Fastify and the naive port, and what each costs
//   npm run bench -- latency [deployment]            at a fixed rate: half and 80 % of what the deployment can carry
//   npm run bench -- tail [deployment]               what the slowest first payments wait for, at half of the capacity
//   npm run bench -- soak [deployment]               an hour of steady load; both deployments at once if none is named
//   npm run bench -- growth [deployment [count]]     with none, a million and ten million payments
//   npm run bench -- pending [deployment]            ordinary payments next to a hundred thousand that wait at the processor
//   npm run bench -- feed [deployment]               ordinary payments next to an endpoint and a reader with a million settlements before them
//   npm run bench -- order-index [count]             what computed keys cost PostgreSQL, with none, a million and ten million payments
//   npm run bench -- scaling [PROCESSES [MASTERS]]   what an operation costs, with 1 to 3 processes and Redis masters (scaling.ts)
//   npm run bench -- document                        the newest results as tables of docs/engineering/performance.md, and what
//                                                  has changed in src since the commit of each table of the documents
//
// The deployment is `embedded` if none is named; the other one is `distributed`, on its own Redis and PostgreSQL.
//
//   BENCH_SECONDS      length of one run, 2      BENCH_ROUNDS  rounds per row, 5
//   BENCH_CONNECTIONS  open at a time, 64 (rows of 256 keep theirs)
//   BENCH_ROW          only rows whose name begins like one of these, comma-separated; `first payment` or `repeat` for latency
//   BENCH_ALSO         services that take part as well, comma-separated: `traced` and `sampled`, with traces of all requests and
//                      of one in a hundred, to a collector that takes them
//   BENCH_BEFORE       folder of another version of this repository, built: its service takes part as `before`, with databases
//                      of its own, in rates and latency. It shows what a change is worth, because both versions meet the same minutes:
//                      git worktree add ../before COMMIT && (cd ../before && npm ci && npm run build)
//   BENCH_NODE24       path of a Node.js 24: the service on it takes part as `node24`, with databases of its own, in rates
//   SOAK_MINUTES       60      SOAK_ROUNDS_PER_SECOND  60, of ten requests each
//   SCALING_OPERATIONS of each kind, 12000
import { Opened } from '../testkit/opened.js';
import { writeDocument } from './document.js';
import { measureFeed } from './feed.js';
import { measureGrowth } from './growth.js';
import { measureLatency } from './latency.js';
import { type Options, readOptions } from './options.js';
import { measureOrderIndex } from './order-index.js';
import { measurePending } from './pending.js';
import { measureRates } from './rates.js';
import { measureScaling } from './scaling.js';
import { soak } from './soak.js';
import { measureTail } from './tail.js';

/** The exit code of a process that Ctrl-C ended. */
const INTERRUPTED = 130;

type Work = (options: Options, opened: Opened, parameters: readonly string[]) => Promise<void>;

const RUNS: Readonly<Record<string, Work>> = {
  latency: measureLatency,
  tail: measureTail,
  soak,
  growth: measureGrowth,
  pending: measurePending,
  feed: measureFeed,
  'order-index': measureOrderIndex,
  scaling: measureScaling,
  document: writeDocument,
};

const opened = new Opened();
let closing: Promise<void> | undefined;
const close = () => {
  closing ??= opened.close();
  return closing;
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void close().finally(() => process.exit(INTERRUPTED)));
}
try {
  const [name = '', ...parameters] = process.argv.slice(2);
  const run = RUNS[name];
  if (run) await run(readOptions(), opened, parameters);
  else await measureRates(readOptions(), opened, name ? [name] : []);
} catch (problem) {
  console.error(`The benchmark failed: ${problem instanceof Error ? (problem.stack ?? problem.message) : problem}`);
  process.exitCode = 1;
} finally {
  await close();
}
process.exit();
