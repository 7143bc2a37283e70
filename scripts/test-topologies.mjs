// Runs the contract suites, the writes to Redis and the whole HTTP suite on every topology that the distributed deployment claims, then the
// failover tests. All of test/http runs on each topology. One that fails, also because its servers cannot be had on this
// machine, makes the command fail.
// Arguments name topologies, or `failover`; without any, all run. With `redis` among them, only the tests of what Redis stores run.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const asked = process.argv.slice(2).filter((name) => name !== 'redis');
const CONTRACTS = 'test/contracts/distributed.test.ts';
const WRITES = 'test/adapters/redis-writes.test.ts';
const OF_REDIS = '(key store|transaction cache|key-value store report) contract';
const SUITES = process.argv.includes('redis')
  ? [CONTRACTS, '--testNamePattern', OF_REDIS]
  : [CONTRACTS, WRITES, 'test/http'];
const RUNS = [
  { name: 'cluster', topology: 'cluster', files: SUITES },
  { name: 'sentinel', topology: 'sentinel', files: SUITES },
  { name: 'valkey', topology: 'valkey', files: SUITES },
  { name: 'postgres 18', topology: 'postgres-18', files: SUITES },
  { name: 'tls', topology: 'tls', files: SUITES },
  { name: 'failover', topology: '', files: ['test/topologies'] },
];

const runs = RUNS.filter(
  ({ name, topology }) => asked.length === 0 || asked.includes(name) || asked.includes(topology),
);
if (runs.length === 0) throw new Error(`name some of: ${RUNS.map(({ name }) => name).join(', ')}`);

const total = { passed: 0, failed: 0 };
const ends = { passed: [], failed: [] };
for (const run of runs) {
  const startedAt = performance.now();
  process.stdout.write(`\n--- ${run.name}\n`);
  const { code, output } = await test(run);
  const [, passed = 0, failed = 0] = /^(\d+) passed, (\d+) failed$/m.exec(output)?.map(Number) ?? [];
  const end = code === 0 ? 'passed' : 'failed';
  ends[end].push(run.name);
  total.passed += passed;
  // A run that ended before it could count is one failure.
  total.failed += end === 'failed' ? Math.max(1, failed) : 0;
  process.stdout.write(`--- ${run.name} ${end} after ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
}

process.stdout.write(`\n${total.passed} passed, ${total.failed} failed\n`);
const failures = ends.failed.length > 0 ? `; ${ends.failed.join(', ')} failed` : '';
process.stdout.write(`topologies: ${ends.passed.join(', ') || 'none'} passed${failures}\n`);
process.exit(ends.failed.length === 0 ? 0 : 1);

function test({ topology, files }) {
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', ...files];
  const child = spawn(process.execPath, vitest, {
    cwd: root,
    env: { ...process.env, IDEMPAY_TOPOLOGY: topology },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const [stream, sink] of [
    [child.stdout, process.stdout],
    [child.stderr, process.stderr],
  ]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
      sink.write(text);
    });
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}
