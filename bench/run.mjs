// `npm run bench`: a deployment beside its peers, in one run. Only the ratios mean anything: the same row moves by a fifth
// within minutes on a shared machine, but all servers of a round meet the same minute.
//
//   npm run bench [-- deployment]             requests a second, beside a bare Fastify and the peers, and what each costs
//   npm run bench -- latency [deployment]     at a fixed rate: half and 80 % of what the deployment can carry
//   npm run bench -- trickle [deployment]     good clients beside 2,000 connections that trickle heads and bodies
//   npm run bench -- overload [deployment]    three times the load that it can carry
//   npm run bench -- soak [deployment]        an hour of steady load, with plots
//   npm run bench -- scaling                  what an operation costs, with 1 to 3 processes and Redis masters
//   npm run bench -- growth [deployment]      as payments and keys become many, with a plot
//   npm run bench -- by-key                   claims and settlements as the table of payments grows
//   npm run bench -- document                 the newest results as tables and plots of docs/performance.md
//
// The deployment is `embedded` unless it is named; the other one is `distributed`, on its own Redis and PostgreSQL.
//
//   BENCH_SECONDS      length of one run, 2      BENCH_ROUNDS  rounds per row, 5
//   BENCH_CONNECTIONS  open at a time, 64 (rows of 256 keep theirs)
//   BENCH_ROW          only rows whose name begins like one of these, comma-separated; `first payment` or `repeat` for latency
//   BENCH_ALSO         servers that take part besides, comma-separated: `secured` (the service with an API key on each
//                      request), `traced` and `sampled` (with traces of all requests and of one in a hundred, to a collector
//                      that takes them), `express-idempotency`, `powertools`
//   BENCH_BEFORE       folder of another version of this repository, built: its service takes part as `before`, with databases
//                      of its own, in rates and latency. Says what a change is worth, since both versions meet the same minutes:
//                      git worktree add ../before COMMIT && (cd ../before && npm ci && npm run build)
const RUNS = {
  latency: () => import('./latency.mjs'),
  trickle: () => import('./trickle.mjs'),
  overload: () => import('./overload.mjs'),
  soak: () => import('./soak.mjs'),
  document: () => import('./document.mjs'),
  growth: () => import('./growth.mjs'),
  scaling: () => import('./scaling.mjs'),
  'by-key': () => import('./by-key.mjs'),
};

try {
  const [name] = process.argv.slice(2);
  if (name in RUNS) await RUNS[name]();
  else await (await import('./rates.mjs')).measureRates(name);
} catch (problem) {
  console.error(`The benchmark failed: ${problem.message}`);
  process.exitCode = 1;
}
