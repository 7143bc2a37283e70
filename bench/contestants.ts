// The servers that a round compares: the service, a bare Fastify, and the naive port.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import type { Opened } from '../testkit/opened.js';
import type { Environment } from '../testkit/processes/service.js';
import { SERVICE } from '../testkit/programs.js';
import { type Meter, openMeter } from './costs.js';
import type { Deployment, Options } from './options.js';
import {
  benchProgram,
  openPostgres,
  openProcessor,
  openProgram,
  openRedis,
  type Server,
  temporaryFolder,
} from './servers.js';

export type Contestant = Server & { readonly meter: Meter };
export type Contestants = ReadonlyMap<string, Contestant>;

/** With any delay a payment takes two commits. This is the shortest one; the simulated processor takes no CPU time meanwhile. */
const DELAYED = { PROCESSOR_DELAY_MS: '1' };

const TRACED: Readonly<Record<string, Environment>> = {
  traced: {},
  sampled: { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
};

/** By name; with `, HTTP` after it the server that charges at the reference processor instead of simulating the charge. */
export async function openContestants(
  opened: Opened,
  deployment: Deployment,
  { also, before, node24 }: Pick<Options, 'also' | 'before' | 'node24'>,
): Promise<Contestants> {
  const folder = await temporaryFolder(opened);
  const redis = await openRedis(opened);
  const postgres = deployment === 'distributed' ? await openPostgres(opened) : undefined;
  const processor = await openProcessor(opened, join(folder, 'charges.ndjson'));
  const overHttp = { PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '10000' };
  const contestants = new Map<string, Contestant>();

  /** `database` is the one of this server, and `node` another Node.js than this one. */
  async function add(
    name: string,
    program: string,
    environment: Environment,
    database = postgres,
    node?: string,
  ): Promise<void> {
    const server = await openProgram(opened, program, environment, node);
    const measured = isService(name) ? { ...server, service: server } : server;
    const stores = { redis: [redis], postgres: database ? [database] : [] };
    const meter = await openMeter(opened, { service: [measured], ...stores, processor: [processor] });
    contestants.set(name, { ...server, meter });
  }
  let stores = 0;
  /** Stores of their own, as simulated payments and those at a processor have (rule P14), and as a version with other scripts and tables. */
  async function newStores(part: string) {
    if (!postgres) return { environment: { DATA_DIR: join(folder, part) } };
    const database = { ...postgres, url: await postgres.createDatabase(part) };
    const environment: Environment = { REDIS_URL: `${redis.url}/${stores}`, DATABASE_URL: database.url };
    stores += 1;
    return { environment, database };
  }
  /** Returns the settings that lead to its simulated payments. */
  async function addVersion(name: string, program: string, node?: string): Promise<Environment> {
    const [simulated, http] = [await newStores(`${name}_simulated`), await newStores(`${name}_http`)];
    const delayed = postgres ? simulated : await newStores(`${name}_delayed`);
    await add(name, program, simulated.environment, simulated.database, node);
    await add(`${name}, HTTP`, program, { ...http.environment, ...overHttp }, http.database, node);
    await add(`${name}, delayed`, program, { ...delayed.environment, ...DELAYED }, delayed.database, node);
    return simulated.environment;
  }

  await add('bare', benchProgram('bare-fastify'), {});
  await add('bare, HTTP', benchProgram('bare-fastify'), overHttp);
  await add('naive', benchProgram('naive-port'), { REDIS_URL: redis.url });
  const ours = await addVersion('ours', SERVICE);
  if (before) await addVersion('before', resolve(before, 'dist/main.js'));
  if (node24) await addVersion('node24', SERVICE, node24);
  for (const [name, settings] of Object.entries(TRACED)) {
    if (!also.includes(name)) continue;
    const where = postgres ? ours : { DATA_DIR: join(folder, name) };
    const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: await openTraceSink(opened) };
    await add(name, SERVICE, { ...where, ...collector, ...settings });
  }
  return contestants;
}

const isService = (name: string) => name !== 'naive' && !name.startsWith('bare');

/** A collector that takes every trace and looks at none. */
async function openTraceSink(opened: Opened): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.setHeader('content-type', 'application/json').end('{}'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await opened.keep({
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
