import type { EndpointRows, LeaseResult } from '../../../webhooks/ports/endpoint-rows.js';
import {
  endpointRowOf,
  type ListedRow,
  LONGEST_CAUSE,
  type SetAsideRow,
  setAsideOf,
  takeResultOf,
} from '../../shared/endpoint-rows.js';
import type { Reader } from '../reader.js';
import type { Writer } from '../writer/writer.js';

const LIST = `
  SELECT name, client, stopped_by, incarnation, at_us, key,
    (SELECT count(*) FROM webhook_set_aside WHERE endpoint = name) AS set_aside
  FROM webhook_endpoints WHERE ?1 IS NULL OR name = ?1 ORDER BY name`;
const LIST_SET_ASIDE = `
  SELECT key, cause, set_aside_at, next_try_at FROM webhook_set_aside WHERE endpoint = ? ORDER BY set_aside_at, key LIMIT ?`;
const DUE = `
  SELECT key FROM webhook_set_aside WHERE endpoint = ? AND next_try_at <= ? ORDER BY next_try_at, key LIMIT ?`;

const resultOf = (isOwned: boolean): LeaseResult => (isOwned ? 'ok' : 'stale');

/** The rows of endpoints in SQLite. `clock` is the store's. */
export function createEmbeddedEndpointRows(
  writer: Pick<Writer, 'write'>,
  reader: Reader,
  clock: { now(): number },
): EndpointRows {
  const list = reader.prepare(LIST);
  const listSetAside = reader.prepare(LIST_SET_ASIDE);
  const due = reader.prepare(DUE);

  return {
    async take({ client, ...asked }) {
      return takeResultOf((await writer.write('takeEndpoint', { ...asked, client: client ?? null })) ?? undefined);
    },

    async begin({ name, client, position }) {
      await writer.write('beginEndpoint', { name, client: client ?? null, ...position, key: position.key ?? null });
    },

    advance: async (lease, position) =>
      resultOf(await writer.write('advanceEndpoint', { ...lease, ...position, key: position.key ?? null })),

    setAside: ({ name, owner }, { cause, ...refused }) =>
      writer.write('setSettlementAside', { name, owner, ...refused, cause: cause.slice(0, LONGEST_CAUSE) }),

    due: async ({ name }, limit) => (due.all(name, clock.now(), limit) as { key: string }[]).map(({ key }) => key),

    refusedAgain: async ({ name, owner }, { cause, ...refused }) =>
      resultOf(
        await writer.write('settlementRefusedAgain', { name, owner, ...refused, cause: cause.slice(0, LONGEST_CAUSE) }),
      ),

    removeSetAside: async ({ name, owner }, key) =>
      resultOf(await writer.write('removeSetAside', { name, owner, key })),

    stopServing: async ({ name, owner }) => resultOf(await writer.write('stopServingEndpoint', { name, owner })),

    release: ({ name, owner }) => writer.write('releaseEndpoint', { name, owner }),

    stop: (name) => writer.write('stopEndpoint', { name }),
    start: (name) => writer.write('startEndpoint', { name }),

    resend: async (name, key) => (await writer.write('resendSettlements', { name, key: key ?? null })) ?? undefined,

    list: async () => (list.all(null) as ListedRow[]).map(endpointRowOf),

    async find(name) {
      const row = list.get(name) as ListedRow | undefined;
      return row && endpointRowOf(row);
    },

    listSetAside: async (name, limit) => (listSetAside.all(name, limit) as SetAsideRow[]).map(setAsideOf),
  };
}
