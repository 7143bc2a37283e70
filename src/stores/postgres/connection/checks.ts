import type { Client, Notification, QueryResultRow } from 'pg';
import { MOST_LOOKED_AT } from '../../../payments/ports/payment-history.js';
import { WORDS_ALONE } from '../../../payments/values/reference.js';
import type { Clock } from '../../../platform/clock.js';
import { type Finding, median, milliseconds, verdictOf } from '../../../platform/finding.js';
import {
  type Check,
  type ComparedSettings,
  ENDS_WITH_SEPARATOR,
  examineClock,
  judgeAccess,
  judgeLostNumbers,
  judgeProcessors,
  judgeTransport,
} from '../../shared/checks.js';
import { examineSchema } from '../../shared/found-schema.js';
import { type PaidRow, paidCountsOf } from '../../shared/payment-history.js';
import { LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '../../shared/time-limits.js';
import { readSchema } from '../migrate.js';
import { readAdoption } from '../payments/adopt.js';
import { COUNT_PAID } from '../payments/payment-history-statements.js';
import { DATABASE_WORDS, readProcessorNames } from '../payments/processor-names.js';
import { FIND_TRANSFER } from '../transfer-state.js';
import { CONFIRM } from './durability.js';
import type { Statement } from './postgres.js';
import { endsInTime, type SessionLimits } from './session.js';

const COMMIT_LIMIT_MS = 2_000;
const COMMITS = 5;
const SLOW_COMMIT_MS = 50;
const TESTED_VERSION = 15;
/** `gen_random_uuid()` is a part of the server since this one. */
const LEAST_VERSION = 13;
/** A rolling deploy has one process more, and one that starts migrates on a connection of its own. */
const LEAST_PROCESSES = 3;

/** The first row of the answer. */
export type Ask = (statement: Statement) => Promise<Record<string, unknown>>;

export interface ExaminedPostgres extends ComparedSettings {
  readonly ask: Ask;
  readonly client: Client;
  readonly url: string;
  readonly poolSize: number;
  readonly clock: Clock;
  /** The row of `SETTINGS`. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The limits that count in a session after another one was set up; both are set up as by the service. */
  askLimits(): Promise<SessionLimits>;
  /** Cancels what the server does in a session, over another connection. */
  cancel(pid: number): Promise<void>;
}

export const SETTINGS: Statement = {
  name: 'examined_settings',
  text: `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
    pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS read_only, current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standbys, current_setting('data_checksums') AS data_checksums`,
};
const RIGHTS: Statement = {
  name: 'examined_rights',
  text: `SELECT has_database_privilege(current_database(), 'CREATE') AS may_create, schema IS NOT NULL AS is_there,
    coalesce(has_schema_privilege(schema, 'USAGE'), false) AS may_use,
    (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class
      WHERE relnamespace = schema AND relkind = 'r' AND NOT (
        has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))) AS closed
    FROM to_regnamespace('idempay') AS schema`,
};
const CONNECTIONS: Statement = {
  name: 'examined_connections',
  text: `SELECT current_setting('max_connections')::int AS most,
    current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true), '0')::int AS reserved,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS of_user,
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS of_database,
    (SELECT sum(numbackends) FROM pg_stat_database)::int AS used`,
};
const NOW: Statement = { name: 'examined_clock', text: 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now' };
const TRANSPORT: Statement = {
  name: 'examined_transport',
  text: `SELECT version, inet_server_addr() IS NULL AS local
    FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND (ssl OR inet_server_addr() IS NULL)`,
};
/** The pattern means the same in both languages. */
const LOST_NUMBERS: Statement = {
  name: 'examined_lost_numbers',
  text: `SELECT count(*)::int AS payments, min(reference) AS example FROM idempay.payments
    WHERE reference IS NOT NULL AND ${ENDS_WITH_SEPARATOR} AND reference ~ '${WORDS_ALONE.source}'`,
};
/** SQLSTATE: the statement took too long. */
const CANCELLED = '57014';
/** SQLSTATEs: there is no such table or column, or the user may not read it. */
const UNREADABLE = new Set(['42P01', '3F000', '42703', '42501']);
export const RIGHTS_ADVICE =
  'Let the user of DATABASE_URL own the schema idempay and what is in it, or name a user who does: it needs CREATE on the database where the schema is not there yet';

/** Everything that is asked of the server of `DATABASE_URL`. The start asks some of it too, and acts on findings that have advice. */
export const POSTGRES_CHECKS: readonly Check<ExaminedPostgres>[] = [
  judgeServer,
  judgeDurability,
  examineLimits,
  examineConnections,
  ({ ask, clock }) => examineClock('PostgreSQL', clock, async () => Number((await ask(NOW)).now)),
  examineTransport,
  examineRights,
  ({ client }) => examineSchema('PostgreSQL', () => readSchema(client)),
  ifReadable(examineTransfer),
  ifReadable(examineProcessors),
  ifReadable(examineAccess),
  examineCommits,
  ifReadable(examineLostNumbers),
];

/** A schema that cannot be read has no such row, because other rows say what is wrong with it. */
function ifReadable(check: Check<ExaminedPostgres>): Check<ExaminedPostgres> {
  return async (examined) => {
    try {
      return await check(examined);
    } catch (error) {
      if (UNREADABLE.has((error as { code?: string }).code ?? '')) return [];
      throw error;
    }
  };
}

function judgeServer({ settings }: ExaminedPostgres): Finding[] {
  const major = Number(settings.major);
  const role = settings.standby === true ? 'standby' : 'primary';
  const isReadOnly = settings.read_only === 'on';
  return [
    {
      verdict: verdictOf(major < LEAST_VERSION, major < TESTED_VERSION),
      what: 'PostgreSQL',
      found: String(settings.version),
      wanted: `${TESTED_VERSION} or newer`,
      why: 'nothing older is tested',
    },
    {
      verdict: verdictOf(settings.standby === true || isReadOnly),
      what: 'PostgreSQL role',
      found:
        role === 'primary' && isReadOnly
          ? 'primary, but this user may only read (default_transaction_read_only)'
          : role,
      wanted: 'primary',
      why: 'a standby takes no writes',
    },
  ];
}

/** A start warns of these: a crash of the server loses acknowledged payments. */
export function judgeDurability({ settings }: Pick<ExaminedPostgres, 'settings'>): Finding[] {
  const commit = String(settings.synchronous_commit);
  const hasStandbys = settings.standbys !== '';
  const named = (name: string) => ({ what: `PostgreSQL ${name}`, found: String(settings[name]), wanted: 'on' });
  const isOff = (name: string) => settings[name] === 'off';
  return [
    {
      ...named('fsync'),
      verdict: verdictOf(isOff('fsync')),
      why: 'without it a crash of the machine loses acknowledged payments, or the whole database',
      advice: isOff('fsync') ? 'Turn it on' : undefined,
    },
    {
      ...named('full_page_writes'),
      verdict: verdictOf(false, isOff('full_page_writes')),
      why: 'without it a crash can damage pages, unless the storage never tears one',
    },
    {
      ...named('synchronous_commit'),
      verdict: verdictOf(commit === 'off', hasStandbys && ['local', 'remote_write'].includes(commit)),
      why: 'when it is off, a crash loses acknowledged payments; local and remote_write do so at a failover',
      advice: commit === 'off' ? 'Turn it on' : undefined,
    },
    {
      verdict: verdictOf(false, !hasStandbys),
      what: 'PostgreSQL synchronous_standby_names',
      found: hasStandbys ? String(settings.standbys) : 'none',
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

async function examineLimits({ askLimits }: ExaminedPostgres): Promise<Finding[]> {
  const limits = await askLimits();
  const { statementTimeoutMs, lockTimeoutMs, isAnother } = limits;
  const found = (ms: number) => {
    return `${ms === 0 ? 'none' : `${ms} ms`}${isAnother ? ', and a pooler loses settings of a session' : ''}`;
  };
  const advice = isAnother ? ', set for the user with ALTER ROLE' : '';
  return [
    {
      verdict: verdictOf(!endsInTime(limits)),
      what: 'PostgreSQL statement_timeout',
      found: found(statementTimeoutMs),
      wanted: `at most ${STATEMENT_TIMEOUT_MS} ms${advice}`,
      why: 'a change that is committed later is hidden by the cache; without it nothing may be changed',
    },
    {
      verdict: verdictOf(false, lockTimeoutMs === 0 || lockTimeoutMs > LOCK_TIMEOUT_MS),
      what: 'PostgreSQL lock_timeout',
      found: found(lockTimeoutMs),
      wanted: `at most ${LOCK_TIMEOUT_MS} ms${advice}`,
      why: 'without it one row that another session blocks fails the payments that came with it',
    },
  ];
}

async function examineConnections({ ask, poolSize }: ExaminedPostgres): Promise<Finding> {
  const row = await ask(CONNECTIONS);
  const limits = [Number(row.most) - Number(row.reserved), Number(row.of_user), Number(row.of_database)];
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

async function examineTransport({ ask, url }: ExaminedPostgres): Promise<Finding> {
  const row = await ask(TRANSPORT);
  const isVerified = !/[?&]sslmode=no-verify/.test(url);
  const tls = row.version ? `${row.version}${isVerified ? '' : ', certificate not verified'}` : undefined;
  const finding = judgeTransport('PostgreSQL', row.local === true ? '/socket' : new URL(url).hostname, tls);
  return { ...finding, verdict: isVerified ? finding.verdict : 'warning' };
}

/** Checks that the user may make the schema, or use its contents. A start refuses otherwise. */
export async function examineRights({ ask }: Pick<ExaminedPostgres, 'ask'>): Promise<Finding> {
  const row = {
    what: 'PostgreSQL rights',
    wanted: 'reads and writes the schema idempay',
    why: 'without them every payment is refused; the owner of the schema has them',
  };
  const { may_create, is_there, may_use, closed } = await ask(RIGHTS);
  if (is_there !== true) {
    const found = `no schema yet; its user may ${may_create === true ? '' : 'not '}create it`;
    return { ...row, found, verdict: verdictOf(may_create !== true) };
  }
  if (may_use === true && closed === null) return { ...row, verdict: 'ok', found: 'all' };
  const found = `its user may not ${may_use === true ? `read and write ${closed}` : 'use the schema idempay'}`;
  return { ...row, verdict: 'wrong', found, advice: RIGHTS_ADVICE };
}

/** `$1`: the processor. */
export const NEWEST_CHARGE = `
  SELECT key FROM (SELECT key, state, processor FROM idempay.payments ORDER BY transaction_id DESC LIMIT 100) AS newest
  WHERE state = 'COMPLETED' AND processor = $1 LIMIT 1`;

async function examineProcessors({ client, processors }: ExaminedPostgres): Promise<Finding> {
  const read = readOn(client);
  const claimed = await readProcessorNames({ read });
  const paid = paidCountsOf(await read<PaidRow>(COUNT_PAID, [MOST_LOOKED_AT]));
  return judgeProcessors(processors, claimed, paid, DATABASE_WORDS);
}

async function examineAccess({ client, access }: ExaminedPostgres): Promise<Finding> {
  return judgeAccess(access, await readAdoption({ read: readOn(client) }), DATABASE_WORDS);
}

/** The reads of the adapters, on the doctor's connection. */
function readOn(client: Client) {
  return async <Row extends QueryResultRow>({ text }: Statement, values: readonly unknown[] = []) =>
    (await client.query<Row>(text, [...values])).rows;
}

/** A start is refused for the same states. */
async function examineTransfer({ ask }: ExaminedPostgres): Promise<Finding | []> {
  const { state } = await ask(FIND_TRANSFER);
  if (state === undefined) return [];
  return {
    verdict: verdictOf(state === 'COPYING' || state === 'GIVEN UP'),
    what: 'PostgreSQL transfer',
    found: String(state).toLowerCase(),
    wanted: 'complete or started',
    why: 'no service starts on a copy that idempay transfer has not finished, or has given up',
  };
}

/** Measures empty commits, which wait for the disk and for a synchronous standby as the commits of a payment do. */
async function examineCommits({ ask, client, cancel, settings }: ExaminedPostgres): Promise<Finding | []> {
  if (settings.standby === true || settings.read_only === 'on') return [];
  const row = {
    what: 'PostgreSQL commit time',
    wanted: `less than ${SLOW_COMMIT_MS} ms`,
    why: 'each payment waits for two commits',
  };
  const { pid } = await ask({ name: 'examined_session', text: 'SELECT pg_backend_pid() AS pid' });
  let isWaitCancelled = false;
  client.on('notice', (notice: Notification | { routine?: string }) => {
    if ('routine' in notice && notice.routine === 'SyncRepWaitForLSN') isWaitCancelled = true;
  });
  const times: number[] = [];
  for (let commit = 0; commit < COMMITS && !isWaitCancelled; commit += 1) {
    const startedAt = performance.now();
    const timer = setTimeout(() => cancel(Number(pid)), COMMIT_LIMIT_MS);
    await client.query(CONFIRM.text).finally(() => clearTimeout(timer));
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

/** Last, because with many millions of references it takes as long as a statement may. */
async function examineLostNumbers({ ask }: Pick<ExaminedPostgres, 'ask'>): Promise<Finding> {
  try {
    const { payments, example } = await ask(LOST_NUMBERS);
    return judgeLostNumbers(payments === 0 ? undefined : { payments: Number(payments), example: String(example) });
  } catch (error) {
    const { code = '' } = error as { code?: string };
    if (code === CANCELLED) return { ...judgeLostNumbers(undefined), found: 'not counted, because it takes too long' };
    throw error;
  }
}
