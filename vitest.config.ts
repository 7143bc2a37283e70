import { configDefaults, defineConfig } from 'vitest/config';

/**
 * Tests import the build (`#idempay/*` is `dist/*`, see package.json), so that they prove what is shipped. Three
 * files run at a time: most start services of their own and wait for them, and the smallest machine supported has two cores.
 */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They kill Clusters for minutes: `npm run test:topologies`.
    exclude: [...configDefaults.exclude, 'test/topologies/**'],
    globalSetup: ['./test/support/servers/shared-postgres.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
    allowOnly: false,
    reporters: ['default', './test/support/count-reporter.ts'],
  },
});
