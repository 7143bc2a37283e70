import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** For `scripts/test-topologies.mjs`: the suites named on its command line, on the topology that IDEMPAY_TOPOLOGY names. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['./testkit/build.ts', './testkit/servers/shared-postgres.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 90_000,
    passWithNoTests: false,
    allowOnly: false,
    reporters: ['default', './testkit/count-reporter.ts'],
  },
});
