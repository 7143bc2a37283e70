import { configDefaults, defineConfig } from 'vitest/config';
import type { Vitest } from 'vitest/node';
import ProjectSequencer from './testkit/project-sequencer.js';
import RunLimitReporter from './testkit/run-limit-reporter.js';
import { patience, WITHOUT_LIMIT } from './testkit/time/patience.js';

/**
 * They kill, pause, restart or fill up real processes and servers, for half a minute each and more on a busy machine; or they install
 * packages, build, or run the samples of the documents; or they are of what happens seldom, such as restores, migrations and new secrets.
 */
const LONG_TESTS = [
  'test/adapters/distributed-backups.test.ts',
  'test/adapters/distributed-key-plans.test.ts',
  'test/adapters/distributed-last-commits.test.ts',
  'test/adapters/distributed-list-plans.test.ts',
  'test/adapters/distributed-replaced.test.ts',
  'test/adapters/distributed-restored.test.ts',
  'test/adapters/doctor-access.test.ts',
  'test/adapters/doctor-distributed.test.ts',
  'test/adapters/doctor-embedded.test.ts',
  'test/adapters/doctor-servers.test.ts',
  'test/adapters/embedded-restored.test.ts',
  'test/adapters/retention-ages.test.ts',
  'test/adapters/settlement-parts.test.ts',
  'test/adapters/webhook-statements.test.ts',
  'test/browser/*.test.ts',
  'test/commands/full-output.test.ts',
  'test/commands/import-killed.test.ts',
  'test/commands/pay-killed.test.ts',
  'test/commands/processor-check.test.ts',
  'test/commands/transfer-cancelled.test.ts',
  'test/commands/transfer-killed.test.ts',
  'test/commands/transfer-many.test.ts',
  'test/commands/transfer.test.ts',
  'test/contracts/modelled.test.ts',
  'test/documents/samples-run.test.ts',
  'test/examples/back-office.test.ts',
  'test/examples/own-adapter.test.ts',
  'test/examples/queue-worker.test.ts',
  'test/examples/receiver-webhooks.test.ts',
  'test/examples/receiver.test.ts',
  'test/examples/refund-guide.test.ts',
  'test/examples/retry-loop.test.ts',
  'test/examples/shop-webhooks.test.ts',
  'test/examples/shop.test.ts',
  'test/examples/stripe-adapter-faults.test.ts',
  'test/examples/stripe-adapter-orders.test.ts',
  'test/examples/stripe-adapter-pending.test.ts',
  'test/examples/stripe-adapter-refunds.test.ts',
  'test/examples/together.test.ts',
  'test/faults/attacks-of-strangers.test.ts',
  'test/faults/attacks.test.ts',
  'test/faults/blocked-rows.test.ts',
  'test/faults/broken-disk.test.ts',
  'test/faults/client-calls.test.ts',
  'test/faults/creation-crash.test.ts',
  'test/faults/distributed-cut.test.ts',
  'test/faults/distributed-failover.test.ts',
  'test/faults/distributed-locked-table.test.ts',
  'test/faults/distributed-processes.test.ts',
  'test/faults/distributed-readiness.test.ts',
  'test/faults/distributed-stale.test.ts',
  'test/faults/embedded-file.test.ts',
  'test/faults/full-disk.test.ts',
  'test/faults/live-redis-down.test.ts',
  'test/faults/migrations.test.ts',
  'test/faults/orders-failover.test.ts',
  'test/faults/orders.test.ts',
  'test/faults/payment-content.test.ts',
  'test/faults/pending-crash.test.ts',
  'test/faults/poolers.test.ts',
  'test/faults/primary-found.test.ts',
  'test/faults/processor-restarts.test.ts',
  'test/faults/redis-moves.test.ts',
  'test/faults/refund-crash.test.ts',
  'test/faults/refunds.test.ts',
  'test/faults/renewed-secrets.test.ts',
  'test/faults/settlements-failover.test.ts',
  'test/faults/settlements.test.ts',
  'test/faults/store-log.test.ts',
  'test/faults/waiters.test.ts',
  'test/faults/webhooks.test.ts',
  'test/faults/wrong-settings.test.ts',
  'test/http/adoption.test.ts',
  'test/http/body-budget.test.ts',
  'test/http/broken-connections.test.ts',
  'test/http/client-calls.test.ts',
  'test/http/fuzz-refused.test.ts',
  'test/http/large-export.test.ts',
  'test/http/live.test.ts',
  'test/http/log-not-written.test.ts',
  'test/http/lost-rows-elsewhere.test.ts',
  'test/http/payment-retention.test.ts',
  'test/http/traces-unset.test.ts',
  'test/http/transaction-list-stalled.test.ts',
  'test/http/unread-pages.test.ts',
  'test/package/cli.test.ts',
  'test/package/client-runtimes.test.ts',
  'test/package/client-types.test.ts',
  'test/package/client.test.ts',
  'test/package/image-build.test.ts',
  'test/package/installed.test.ts',
  'test/package/versions.test.ts',
  'test/proof/compiled-mutants.test.ts',
  'test/proof/faults-restored.test.ts',
  'test/proof/faults.test.ts',
  'test/proof/simulator-mistakes.test.ts',
];
/** Each run on servers of its own, by `scripts/test-topologies.mjs`. */
const TOPOLOGY_TESTS = 'test/topologies/**';
/** That script names the files, and the topology, if only as an empty text. Such servers take longer. */
const isTopologyRun = process.env.IDEMPAY_TOPOLOGY !== undefined;

/** A test that takes longer waits for something that never comes. Each wait inside a test has a shorter limit of its own. */
const HANGS_MS = patience(300_000);

const ALL_TESTS = ['test/**/*.test.ts'];
/** Pure functions and in-memory parts: they need no server. */
const UNIT_TESTS = ['test/unit/**/*.test.ts'];

/**
 * Tests import the build (`#idempay/*` is `dist/*`, see package.json), which is made before any of them runs. Six
 * files run at a time on the smallest machine supported, which has two cores, because most spend most of their time waiting for services.
 * `npm test` runs the projects `unit` and `fast`, `npm run test:long` the project `long`; a file named by hand runs in its own project.
 */
export default defineConfig({
  plugins: [limitRun()],
  test: {
    pool: 'forks',
    maxWorkers: isTopologyRun ? 2 : 6,
    hookTimeout: HANGS_MS,
    expect: { poll: { timeout: patience(20_000) } },
    passWithNoTests: false,
    allowOnly: false,
    // Loaded by Node.js as it is, as users run it.
    server: { deps: { external: [/\/dist\//] } },
    sequence: { sequencer: ProjectSequencer },
    reporters: ['default', './testkit/count-reporter.ts'],
    projects: isTopologyRun
      ? [project('topologies', ALL_TESTS, configDefaults.exclude)]
      : [
          shared(project('unit', UNIT_TESTS, configDefaults.exclude, [])),
          shared(project('fast', ALL_TESTS, [...configDefaults.exclude, TOPOLOGY_TESTS, ...UNIT_TESTS, ...LONG_TESTS])),
          project('long', LONG_TESTS, configDefaults.exclude),
        ],
  },
});

/** Adds the limit of the whole run to the reporters of the configuration, or to those that `--reporter` names in their place. */
function limitRun() {
  return {
    name: 'limit of the run',
    // It is called once for each project.
    configureVitest({ vitest: { config } }: { vitest: Vitest }) {
      if (!config.reporters.some((reporter) => reporter.constructor.name === RunLimitReporter.name))
        config.reporters.push(new RunLimitReporter());
    },
  };
}

function project(
  name: string,
  include: string[],
  exclude: string[],
  servers = ['./testkit/servers/shared-postgres.ts'],
) {
  const globalSetup = ['./testkit/build.ts', ...servers];
  const testTimeout = name === 'unit' ? WITHOUT_LIMIT.timeout : HANGS_MS;
  return { extends: true as const, test: { name, include, exclude, globalSetup, testTimeout } };
}

/**
 * Files share worker processes, and so what they import: to start a worker and to load the product for each file took a fifth
 * of the time of the suite. A file leaves its process as it found it.
 */
function shared<T extends ReturnType<typeof project>>({ test, ...others }: T) {
  return {
    ...others,
    test: { ...test, isolate: false, restoreMocks: true, unstubEnvs: true, setupFiles: ['./testkit/shared-worker.ts'] },
  };
}
