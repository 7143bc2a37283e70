import { inject } from 'vitest';
import { findValkey } from '../../servers/binaries.js';
import { startRedis } from '../../servers/redis.js';
import { startSecuredRedis } from '../../servers/secured-redis.js';
import { createSharedDatabase } from '../../servers/shared-database.js';
import { TOPOLOGY } from './topology.js';

/** An empty Redis, of whatever topology this run is about, and an empty database. */
export interface OpenStores {
  readonly redisUrl: string;
  readonly databaseUrl: string;
  /** What a service process needs beside the two URLs. */
  readonly environment: Record<string, string>;
  close(): Promise<void>;
}

export async function openStores(): Promise<OpenStores> {
  const [redis, database] = await Promise.all([openRedis(), createSharedDatabase()]);
  return {
    redisUrl: redis.url,
    databaseUrl: database.url,
    environment: TOPOLOGY === 'tls' ? { NODE_EXTRA_CA_CERTS: authority() } : {},
    async close() {
      await Promise.all([redis.close(), database.drop()]);
    },
  };
}

async function openRedis(): Promise<{ readonly url: string; close(): Promise<void> }> {
  switch (TOPOLOGY) {
    case 'cluster':
    case 'sentinel':
      return lease();
    case 'valkey':
      return startRedis([], await findValkey());
    case 'tls':
      return startSecuredRedis(authority());
    default:
      return startRedis();
  }
}

/** Set by the run before its processes start, because Node reads it when it starts. */
function authority(): string {
  const file = process.env.NODE_EXTRA_CA_CERTS;
  if (!file) throw new Error('NODE_EXTRA_CA_CERTS must name the authority that the tests made');
  return file;
}

/** A Cluster takes seconds to form, so they are kept and emptied between uses (see `leases.ts`). */
async function lease(): Promise<{ url: string; close(): Promise<void> }> {
  const answer = await fetch(inject('leasesUrl'), { method: 'POST' });
  if (!answer.ok) throw new Error(`no ${TOPOLOGY} could be leased: ${await answer.text()}`);
  const { id, url } = (await answer.json()) as { id: number; url: string };
  return {
    url,
    async close() {
      const returned = await fetch(`${inject('leasesUrl')}/${id}`, { method: 'DELETE' });
      if (!returned.ok) throw new Error(`the ${TOPOLOGY} could not be emptied: ${await returned.text()}`);
    },
  };
}
