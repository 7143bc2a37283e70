import type { TestProject } from 'vitest/node';
import { TOPOLOGY } from '../deployments/topologies/topology.js';
import { embeddedPostgres } from './binaries.js';
import { startPostgres } from './postgres.js';
import { startSecuredPostgres } from './secured-postgres.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Port of the PostgreSQL server that all test files share; each takes databases of its own. */
    postgresPort: number;
    /** The service's user there, with a password and over TLS, if the run is about that; else empty. */
    postgresUserUrl: string;
  }
}

const UNSAFE = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off'];

/** Tests that stop or break PostgreSQL start their own. */
export default async function startSharedPostgres(project: TestProject): Promise<() => Promise<void>> {
  const secured = TOPOLOGY === 'tls' ? await startSecuredPostgres(UNSAFE) : undefined;
  const binaries = TOPOLOGY === 'postgres-18' ? await embeddedPostgres() : undefined;
  const server = secured ?? (await startPostgres(UNSAFE, binaries));
  project.provide('postgresPort', server.port);
  project.provide('postgresUserUrl', secured?.userUrl ?? '');
  // For the processes of this run, which are started after this: theirs is read when they start.
  if (secured) process.env.NODE_EXTRA_CA_CERTS = secured.authority;
  return server.close;
}
