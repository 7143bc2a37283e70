import { resolve } from 'node:path';
import { Client } from 'pg';
import type { DeploymentSettings } from '../config.js';
import type { Clock } from '../platform/clock.js';
import { type Finding, noAnswer } from '../platform/finding.js';
import { within } from '../platform/time-limit.js';
import { FOLDER_CHECKS, nearestExisting, newestChargeIn } from '../stores/embedded/file/checks.js';
import { primaryUrl } from '../stores/postgres/connection/address.js';
import { type Ask, NEWEST_CHARGE, POSTGRES_CHECKS, SETTINGS } from '../stores/postgres/connection/checks.js';
import { askSessionLimits, type SessionLimits, setUpSession } from '../stores/postgres/connection/session.js';
import { wordsFor } from '../stores/postgres/connection/start.js';
import { REDIS_CHECKS } from '../stores/redis/connection/checks.js';
import { messageOf } from '../stores/redis/connection/fault.js';
import { addressOf } from '../stores/redis/connection/sentinels.js';
import { findServers, WITHOUT_REDIS } from '../stores/redis/connection/servers.js';
import type { RedisLocation, RedisNode } from '../stores/redis/connection/url.js';
import { visit } from '../stores/redis/connection/visit.js';
import { type ComparedSettings, examine } from '../stores/shared/checks.js';
import { CannotOpen } from '../stores/shared/deployment.js';

/** A check of a disk that does not answer would never end. */
const FOLDER_LIMIT_MS = 10_000;
/** Every question to a server has a limit of its own; this is for all of them together. */
const SERVER_LIMIT_MS = 20_000;
const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 2_000;
/** The client gives up after the server should have. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** Examines `DATA_DIR`, whether a service runs on it or not. Changes nothing there. Takes some seconds at most. */
export function examineFolder(dataDir: string, compared: ComparedSettings): Promise<readonly Finding[]> {
  const folder = resolve(dataDir);
  return collectFindings(
    FOLDER_LIMIT_MS,
    async (findings) =>
      examine(FOLDER_CHECKS, { ...compared, folder, existing: await nearestExisting(folder) }, findings),
    { what: 'DATA_DIR', why: 'without its folder the service does not start', wordsFor: messageOf },
  );
}

/** The key of a payment among the newest that was completed at a processor, in either deployment. Undefined if there is none, or no answer. */
export async function newestCharge(deployment: DeploymentSettings, processor: string): Promise<string | undefined> {
  try {
    if (deployment.kind === 'embedded') return await newestChargeIn(resolve(deployment.dataDir), processor);
    const asked = onConnection(deployment.databaseUrl, (client) => client.query(NEWEST_CHARGE, [processor]));
    return (await asked).rows[0]?.key;
  } catch {
    return undefined;
  }
}

/**
 * Examines the servers of `REDIS_URL` as the service uses them, with one connection for each. Writes nothing and never rejects: an
 * unreachable server is a finding.
 */
export function examineRedis(location: RedisLocation, clock: Clock): Promise<readonly Finding[]> {
  return collectFindings(
    SERVER_LIMIT_MS,
    async (findings) => {
      const found = await findServers(location);
      findings.push(...found.findings);
      findings.push(...found.refusals.map(({ message }) => noAnswer('REDIS_URL', message, WITHOUT_REDIS)));
      const examined = found.servers.map((server) => examineServer(server, location, clock));
      findings.push(...(await Promise.all(examined)).flat());
    },
    { what: 'Redis', why: WITHOUT_REDIS, wordsFor: messageOf },
  );
}

async function examineServer(node: RedisNode, location: RedisLocation, clock: Clock): Promise<Finding[]> {
  const name = location.topology === 'cluster' ? `Redis ${addressOf(node)}` : 'Redis';
  try {
    const findings = await visit(node, location, (visited) => examine(REDIS_CHECKS, { ...visited, clock }));
    if (!findings) return [noAnswer(name, `no answer from ${addressOf(node)}`, WITHOUT_REDIS)];
    return findings.map((finding) => ({ ...finding, what: finding.what.replace(/^Redis/, name) }));
  } catch (error) {
    if (error instanceof CannotOpen) return [noAnswer(name, error.message, WITHOUT_REDIS)];
    throw error;
  }
}

/**
 * Examines the server of `DATABASE_URL`, on one connection as far as possible. It takes no lock and migrates nothing. It writes a few
 * empty messages to the log of the server, as the service does. Never rejects: an unreachable server is a finding.
 */
export function examinePostgres(
  databaseUrl: string,
  poolSize: number,
  compared: ComparedSettings,
  clock: Clock,
): Promise<readonly Finding[]> {
  return collectFindings(
    SERVER_LIMIT_MS,
    async (findings) => {
      // All questions are to one host.
      const url = await primaryUrl(databaseUrl);
      const askLimits = () => limitsOfSessions(url);
      const cancel = (pid: number) => cancelSession(url, pid);
      await onConnection(url, async (client) => {
        const ask: Ask = async ({ text }) => (await client.query(text)).rows[0] ?? {};
        const settings = await ask(SETTINGS);
        const examined = { ...compared, client, ask, settings, url, poolSize, clock, askLimits, cancel };
        await examine(POSTGRES_CHECKS, examined, findings);
      });
    },
    { what: 'PostgreSQL', why: 'without PostgreSQL nothing can be paid', wordsFor },
  );
}

/** Does not wait for its end: a server that hangs would not close its side. The end of the process does, at the latest. */
async function onConnection<Result>(url: string, use: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({
    connectionString: await primaryUrl(url),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    application_name: 'idempay-doctor',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    // By a statement: some poolers refuse it in the start-up message.
    await client.query(`SET statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
    return await use(client);
  } finally {
    client.end().catch(() => {});
  }
}

/**
 * Sets up two sessions as the service does, then asks what counts in the first. A pooler that gives each transaction another session has
 * let the second replace what the first has set.
 */
function limitsOfSessions(url: string): Promise<SessionLimits> {
  return onConnection(url, async (first) => {
    const { mark } = await setUpSession(first, CONNECT_TIMEOUT_MS);
    return onConnection(url, async (second) => {
      await setUpSession(second, CONNECT_TIMEOUT_MS);
      return askSessionLimits(first, mark);
    });
  });
}

/**
 * Ends a commit's wait for a standby, which the statement time-out does not cover. Otherwise the server would keep waiting, and one
 * connection would be missing for the service.
 */
async function cancelSession(url: string, pid: number): Promise<void> {
  await onConnection(url, (client) => client.query('SELECT pg_cancel_backend($1)', [pid])).catch(() => {
    // The commit then ends at its own time limit.
  });
}

/** The findings of `collect` when it ends, fails or has taken `limitMs`. A failure is a row of its own. */
async function collectFindings(
  limitMs: number,
  collect: (findings: Finding[]) => Promise<unknown>,
  failure: { readonly what: string; readonly why: string; wordsFor(error: unknown): string },
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const collected = collect(findings).then(() => undefined, failure.wordsFor);
  const reason = await within(limitMs, collected, `no answer within ${limitMs / 1_000} s`);
  return reason === undefined ? findings : [...findings, noAnswer(failure.what, reason, failure.why)];
}
