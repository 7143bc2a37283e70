import type { EndpointRows, Lease, LeaseResult } from '../../../webhooks/ports/endpoint-rows.js';
import {
  endpointRowOf,
  type ListedRow,
  LONGEST_CAUSE,
  type SetAsideRow,
  setAsideOf,
  type TakenRow,
  takeResultOf,
} from '../../shared/endpoint-rows.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import * as statements from './endpoint-row-statements.js';

/** The rows of endpoints in PostgreSQL. Each operation is one statement, and running it twice changes nothing more. */
export function createPostgresEndpointRows(database: PostgresPart): EndpointRows {
  async function owned(statement: Statement, { name, owner }: Lease, ...values: unknown[]): Promise<LeaseResult> {
    const rows = await database.writeHoweverLate(statement, [name, owner, ...values]);
    return rows.length > 0 ? 'ok' : 'stale';
  }
  const changes = async (statement: Statement, name: string) =>
    (await database.writeHoweverLate(statement, [name])).length > 0;

  return {
    async take({ name, owner, client, leaseMs }) {
      const values = [name, owner, client ?? null, leaseMs];
      return takeResultOf((await database.writeHoweverLate<TakenRow>(statements.TAKE, values))[0]);
    },

    async begin({ name, client, position: { incarnation, atUs, key }, leaseMs }) {
      const values = [name, client ?? null, incarnation, atUs, key ?? null, leaseMs];
      await database.writeHoweverLate(statements.BEGIN, values);
    },

    advance: (lease, { incarnation, atUs, key }) => owned(statements.ADVANCE, lease, incarnation, atUs, key ?? null),

    async setAside({ name, owner }, { key, cause, retryMs, mostSetAside }) {
      const values = [name, owner, key, cause.slice(0, LONGEST_CAUSE), retryMs, mostSetAside];
      const [row] = await database.writeHoweverLate<{ owned: boolean; kept: boolean }>(statements.SET_ASIDE, values);
      if (!row?.owned) return 'stale';
      return row.kept ? 'ok' : 'full';
    },

    async due({ name }, limit) {
      return (await database.read<{ key: string }>(statements.DUE, [name, limit])).map(({ key }) => key);
    },

    refusedAgain: (lease, { key, cause, retryMs, giveUpMs }) =>
      owned(statements.REFUSED_AGAIN, lease, key, cause.slice(0, LONGEST_CAUSE), retryMs, giveUpMs),

    removeSetAside: (lease, key) => owned(statements.REMOVE_SET_ASIDE, lease, key),

    stopServing: (lease) => owned(statements.STOP_SERVING, lease),

    async release({ name, owner }) {
      await database.writeHoweverLate(statements.RELEASE, [name, owner]);
    },

    stop: (name) => changes(statements.STOP, name),
    start: (name) => changes(statements.START, name),

    async resend(name, key) {
      const [row] = await database.writeHoweverLate<{ count: number }>(statements.RESEND, [name, key ?? null]);
      return row?.count;
    },

    list: async () => (await database.read<ListedRow>(statements.LIST, [null])).map(endpointRowOf),

    async find(name) {
      const [row] = await database.read<ListedRow>(statements.LIST, [name]);
      return row && endpointRowOf(row);
    },

    listSetAside: async (name, limit) =>
      (await database.read<SetAsideRow>(statements.LIST_SET_ASIDE, [name, limit])).map(setAsideOf),
  };
}
