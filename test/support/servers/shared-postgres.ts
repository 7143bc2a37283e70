import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Port of the PostgreSQL server that all test files share; each takes databases of its own. */
    postgresPort: number;
  }
}

/** Tests that stop or break PostgreSQL start their own. This one skips fsync, because nobody pulls its plug. */
export default async function startSharedPostgres(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres(['fsync=off', 'synchronous_commit=off', 'full_page_writes=off']);
  project.provide('postgresPort', server.port);
  return () => server.close();
}
