import { Client, type Notification } from 'pg';
import type { Clock } from '../platform/clock.js';
import { type Finding, median, milliseconds, noAnswer, verdictOf } from '../platform/finding.js';
import { within } from '../platform/time-limit.js';
import { wordsFor } from '../stores/postgres/start.js';
import { examineClock } from './clock.js';
import { type Ask, examineRights, examineSchema } from './postgres-schema.js';
import { examineSessions } from './postgres-session.js';
import { judgeTransport } from './transport.js';

const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 2_000;
const COMMIT_LIMIT_MS = 2_000;
/** The client gives up after the server should have. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;
/** Every question has a limit of its own; this is for all of them together. */
const LIMIT_MS = 20_000;
const COMMITS = 5;
const SLOW_COMMIT_MS = 50;
const TESTED_VERSION = 15;
/** `gen_random_uuid()` is a part of the server since this one. */
const LEAST_VERSION = 13;
/** A rolling deploy has one process more, and one that starts migrates on a connection of its own. */
const LEAST_PROCESSES = 3;
const AWAY = 'without PostgreSQL nothing can be paid';

/**
 * Examines the server of `DATABASE_URL` on one connection. It takes no lock and migrates nothing. It writes a few empty messages
 * to the log of the server, as the service does. Never rejects: an unreachable server is a finding.
 */
export async function examinePostgres(url: string, poolSize: number, clock: Clock): Promise<readonly Finding[]> {
  const slow = noAnswer('PostgreSQL', `no answer within ${LIMIT_MS / 1_000} s`, AWAY);
  return within(LIMIT_MS, examine(url, poolSize, clock), [slow]);
}

async function examine(url: string, poolSize: number, clock: Clock): Promise<Finding[]> {
  const findings: Finding[] = [];
  let client: Client | undefined;
  try {
    client = await connect(url);
    for await (const finding of examineServer(client, url, poolSize, clock)) findings.push(finding);
  } catch (error) {
    findings.push(noAnswer('PostgreSQL', wordsFor(error), AWAY));
  } finally {
    leave(client);
  }
  return findings;
}

async function connect(url: string): Promise<Client> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    application_name: 'idempay-doctor',
  });
  client.on('error', () => {});
  await client.connect();
  // By a statement: some poolers refuse it in the start-up message.
  await client.query(`SET statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
  return client;
}

/** Does not wait: a server that hangs would not close its side. The end of the process does, at the latest. */
function leave(client: Client | undefined): void {
  client?.end().catch(() => {});
}

async function* examineServer(client: Client, url: string, poolSize: number, clock: Clock): AsyncGenerator<Finding> {
  const ask: Ask = async (text) => (await client.query(text)).rows[0] ?? {};
  const { isPrimary, findings } = await examineRole(ask);
  yield* findings;
  yield* await examineDurability(ask);
  yield* await examineSessions(() => connect(url), CONNECT_TIMEOUT_MS);
  yield await examineConnections(ask, poolSize);
  yield await examineClock('PostgreSQL', clock, async () => {
    return Number((await ask('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now')).now);
  });
  yield await examineTransport(ask, url);
  yield await examineRights(ask);
  yield await examineSchema(client);
  if (isPrimary) yield await examineCommits(client, ask, url);
}

async function examineRole(ask: Ask): Promise<{ isPrimary: boolean; findings: Finding[] }> {
  const server = await ask(`SELECT current_setting('server_version') AS version,
    current_setting('server_version_num')::int / 10000 AS major, pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only') AS "readOnly"`);
  const major = Number(server.major);
  const isReadOnly = server.readOnly === 'on';
  const role = isReadOnly ? 'primary, but this user may only read (default_transaction_read_only)' : 'primary';
  return {
    isPrimary: server.standby !== true && !isReadOnly,
    findings: [
      {
        verdict: verdictOf(major < LEAST_VERSION, major < TESTED_VERSION),
        what: 'PostgreSQL',
        found: String(server.version),
        wanted: `${TESTED_VERSION} or newer`,
        why: 'nothing older is tested',
      },
      {
        verdict: verdictOf(server.standby === true || isReadOnly),
        what: 'PostgreSQL role',
        found: server.standby === true ? 'standby' : role,
        wanted: 'primary',
        why: 'a standby takes no writes',
      },
    ],
  };
}

async function examineDurability(ask: Ask): Promise<Finding[]> {
  const settings = await ask(`SELECT current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standbys, current_setting('data_checksums') AS data_checksums`);
  const standbys = String(settings.standbys);
  const commit = String(settings.synchronous_commit);
  const isWeakForStandby = standbys !== '' && ['local', 'remote_write'].includes(commit);
  const named = (name: string) => ({ what: `PostgreSQL ${name}`, found: String(settings[name]), wanted: 'on' });
  const isOff = (name: string) => settings[name] === 'off';
  return [
    {
      ...named('fsync'),
      verdict: verdictOf(isOff('fsync')),
      why: 'without it a crash of the machine loses acknowledged payments, or the whole database',
    },
    {
      ...named('full_page_writes'),
      verdict: verdictOf(false, isOff('full_page_writes')),
      why: 'without it a crash can damage pages, unless the storage never tears one',
    },
    {
      ...named('synchronous_commit'),
      verdict: verdictOf(commit === 'off', isWeakForStandby),
      why: 'when it is off, a crash loses acknowledged payments; local and remote_write do so at a failover',
    },
    {
      verdict: verdictOf(false, standbys === ''),
      what: 'PostgreSQL synchronous_standby_names',
      found: standbys === '' ? 'none' : standbys,
      wanted: 'a standby, if a failover must lose nothing',
      why: 'what an asynchronous standby lacks is lost at a failover',
    },
    {
      ...named('data_checksums'),
      verdict: verdictOf(false, isOff('data_checksums')),
      why: 'without them a page that the disk has changed is not noticed',
    },
  ];
}

async function examineConnections(ask: Ask, poolSize: number): Promise<Finding> {
  const row = await ask(`SELECT current_setting('max_connections')::int AS most,
    current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true), '0')::int AS reserved,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS "ofUser",
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS "ofDatabase",
    (SELECT sum(numbackends) FROM pg_stat_database)::int AS used`);
  const limits = [Number(row.most) - Number(row.reserved), Number(row.ofUser), Number(row.ofDatabase)];
  const free = Math.min(...limits.filter((limit) => limit >= 0));
  const processes = Math.floor(free / poolSize);
  return {
    verdict: verdictOf(processes < 1, processes < LEAST_PROCESSES),
    what: 'PostgreSQL max_connections',
    found: `${free} for this user, ${row.used} in use by all: room for ${processes} processes`,
    wanted: `more than processes x ${poolSize} (DATABASE_POOL_SIZE)`,
    why: 'a process that gets no connection answers 503; a deploy has one process more',
  };
}

async function examineTransport(ask: Ask, url: string): Promise<Finding> {
  const row = await ask(`SELECT version, inet_server_addr() IS NULL AS local
    FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND (ssl OR inet_server_addr() IS NULL)`);
  const isVerified = !/[?&]sslmode=no-verify/.test(url);
  const tls = row.version ? `${row.version}${isVerified ? '' : ', certificate not verified'}` : undefined;
  const finding = judgeTransport('PostgreSQL', row.local === true ? '/socket' : new URL(url).hostname, tls);
  return { ...finding, verdict: isVerified ? finding.verdict : 'warning' };
}

/** Measures empty commits, which wait for the disk and for a synchronous standby as those of a payment do. */
async function examineCommits(client: Client, ask: Ask, url: string): Promise<Finding> {
  const row = {
    what: 'PostgreSQL commit time',
    wanted: `less than ${SLOW_COMMIT_MS} ms`,
    why: 'each payment waits for two commits',
  };
  const { pid } = await ask('SELECT pg_backend_pid() AS pid');
  let isWaitCancelled = false;
  const onNotice = (notice: Notification | { routine?: string }) => {
    if ('routine' in notice && notice.routine === 'SyncRepWaitForLSN') isWaitCancelled = true;
  };
  client.on('notice', onNotice);
  const times: number[] = [];
  for (let commit = 0; commit < COMMITS && !isWaitCancelled; commit += 1) {
    const startedAt = performance.now();
    const timer = setTimeout(() => cancel(url, Number(pid)), COMMIT_LIMIT_MS);
    await client.query("SELECT pg_logical_emit_message(true, 'idempay', '')").finally(() => clearTimeout(timer));
    times.push(performance.now() - startedAt);
  }
  if (isWaitCancelled) {
    return { ...row, verdict: 'wrong', found: `no synchronous standby confirms within ${COMMIT_LIMIT_MS} ms` };
  }
  const [typicalMs, longestMs] = [median(times), Math.max(...times)];
  return {
    ...row,
    verdict: verdictOf(false, typicalMs > SLOW_COMMIT_MS),
    found: `${milliseconds(typicalMs)}, at most ${milliseconds(longestMs)} (${COMMITS} commits)`,
  };
}

/**
 * Ends a commit's wait for a standby, which the statement time-out does not cover. Otherwise the server would keep waiting, and one
 * connection would be missing for the service.
 */
async function cancel(url: string, pid: number): Promise<void> {
  let client: Client | undefined;
  try {
    client = await connect(url);
    await client.query('SELECT pg_cancel_backend($1)', [pid]);
  } catch {
    // The query then ends at its own time limit.
  } finally {
    leave(client);
  }
}
