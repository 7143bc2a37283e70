import { BEGIN_EARLIER_US } from '#idempay/stores/shared/settlement-reads.js';
import type { Statements, Tables } from './postgres-server.js';

/** A row of `webhook_endpoints`. Times are the server's, in milliseconds since the epoch. */
export interface StoredEndpoint {
  readonly name: string;
  readonly client: string | null;
  readonly stopped_by: 'receiver' | 'operator' | null;
  readonly incarnation: string;
  readonly at_us: number;
  readonly key: string | null;
  readonly owner: string | null;
  readonly lease_until: number;
}

/** A row of `webhook_set_aside`. */
export interface StoredSetAside {
  readonly endpoint: string;
  readonly key: string;
  readonly cause: string;
  readonly set_aside_at: number;
  readonly next_try_at: number | null;
}

type Owned = [name: string, owner: string, ...others: unknown[]];

const asideName = (endpoint: string, key: string) => `${endpoint} ${key}`;
const asideOf = ({ setAside }: Tables, name: string) =>
  [...setAside.values()].filter(({ endpoint }) => endpoint === name);
const isFree = ({ owner, lease_until }: StoredEndpoint, leaseMs: number, now: number) =>
  owner === null || lease_until <= now || lease_until > now + 2 * leaseMs;

function ownedBy({ endpoints }: Tables, [name, owner]: Owned): StoredEndpoint | undefined {
  const row = endpoints.get(name);
  return row?.owner === owner && row.stopped_by === null ? row : undefined;
}

/** A statement that changes the row of an endpoint, or what is set aside for it, if its owner asks. */
function ifOwned<Values extends Owned>(
  change: (tables: Tables, row: StoredEndpoint, values: Values, now: number) => void,
): Statements[string] {
  return (tables, values: Values, [now]) => {
    const row = ownedBy(tables, values);
    if (!row) return [];
    change(tables, row, values, now);
    return [{ name: row.name }];
  };
}

function changed(change: (row: StoredEndpoint) => Partial<StoredEndpoint>): Statements[string] {
  return ({ endpoints }, [name]: [string]) => {
    const row = endpoints.get(name);
    if (!row) return [];
    endpoints.set(name, { ...row, ...change(row) });
    return [{ name }];
  };
}

const byTime = (one: number, other: number, keys: readonly [string, string]) =>
  one - other || (keys[0] < keys[1] ? -1 : 1);

/** The model of the statements in `endpoint-row-statements.ts`. */
export const ENDPOINT_STATEMENTS: Statements = {
  take_endpoint(tables, [name, owner, client, leaseMs]: [string, string, string | null, number], [now]) {
    const row = tables.endpoints.get(name);
    if (!row) return [];
    const free = row.owner === owner || isFree(row, leaseMs, now);
    const taken = free && row.client === client && row.stopped_by === null;
    if (taken) tables.endpoints.set(name, { ...row, owner, lease_until: now + leaseMs });
    const aside = asideOf(tables, name);
    const { incarnation, at_us, key } = taken ? row : { incarnation: null, at_us: null, key: null };
    return [
      {
        ...{
          name,
          stopped_by: row.stopped_by,
          taken,
          is_other: row.client !== client && free,
          incarnation,
          at_us,
          key,
        },
        set_aside: aside.length,
        is_due: aside.some(({ next_try_at }) => next_try_at !== null && next_try_at <= now),
      },
    ];
  },

  begin_endpoint(tables, values: [string, string | null, string, number, string | null, number], [now]) {
    const { endpoints, setAside, incarnations } = tables;
    const [name, client, given, at_us, key, leaseMs] = values;
    const young = incarnations.findIndex(({ beganAt }, index) => index > 0 && beganAt > now - BEGIN_EARLIER_US / 1_000);
    const incarnation = incarnations[young - 1]?.incarnation ?? given;
    const row = endpoints.get(name);
    if (row && (row.client === client || !isFree(row, leaseMs, now))) return [];
    endpoints.set(name, {
      ...(row ?? { name, stopped_by: null, lease_until: now }),
      ...{ client, incarnation, at_us, key, owner: null },
    });
    for (const aside of asideOf(tables, name)) setAside.delete(asideName(name, aside.key));
    return [];
  },

  advance_endpoint: ifOwned<[string, string, string, number, string | null]>(
    ({ endpoints }, row, [name, , incarnation, at_us, key]) => endpoints.set(name, { ...row, incarnation, at_us, key }),
  ),

  set_settlement_aside(tables, values: [string, string, string, string, number, number], [now]) {
    const { setAside } = tables;
    const [endpoint, owner, key, cause, retryMs, most] = values;
    const known = setAside.has(asideName(endpoint, key));
    if (!ownedBy(tables, [endpoint, owner])) return [{ owned: false, kept: known }];
    const room = asideOf(tables, endpoint).length < most;
    const row = { endpoint, key, cause, set_aside_at: now, next_try_at: now + retryMs };
    if (room && !known) setAside.set(asideName(endpoint, key), row);
    return [{ owned: true, kept: room || known }];
  },

  due_settlements(tables, [name, limit]: [string, number], [now]) {
    const due = asideOf(tables, name).flatMap(({ key, next_try_at: at }) =>
      at !== null && at <= now ? [{ key, at }] : [],
    );
    due.sort((one, other) => byTime(one.at, other.at, [one.key, other.key]));
    return due.slice(0, limit).map(({ key }) => ({ key }));
  },

  settlement_refused_again: ifOwned<[string, string, string, string, number, number]>(
    ({ setAside }, _row, [endpoint, , key, cause, retryMs, giveUpMs], now) => {
      const row = setAside.get(asideName(endpoint, key));
      const next = (since: number) => (now < since + giveUpMs ? now + retryMs : null);
      if (row) setAside.set(asideName(endpoint, key), { ...row, cause, next_try_at: next(row.set_aside_at) });
    },
  ),

  remove_set_aside: ifOwned<[string, string, string]>(({ setAside }, _row, [endpoint, , key]) =>
    setAside.delete(asideName(endpoint, key)),
  ),

  stop_serving_endpoint: ifOwned(({ endpoints }, row) =>
    endpoints.set(row.name, { ...row, stopped_by: 'receiver', owner: null }),
  ),

  release_endpoint({ endpoints }, [name, owner]: Owned) {
    const row = endpoints.get(name);
    if (row?.owner === owner) endpoints.set(name, { ...row, owner: null });
    return [];
  },

  stop_endpoint: changed(({ stopped_by }) => ({ stopped_by: stopped_by ?? 'operator', owner: null })),
  start_endpoint: changed(() => ({ stopped_by: null })),

  resend_settlements(tables, [name, only]: [string, string | null], [now]) {
    if (!tables.endpoints.has(name)) return [];
    const again = asideOf(tables, name).filter(({ key }) => (only ?? key) === key);
    for (const row of again) tables.setAside.set(asideName(name, row.key), { ...row, next_try_at: now });
    return [{ count: again.length }];
  },

  list_endpoints(tables, [only]: [string | null]) {
    const rows = [...tables.endpoints.values()].filter(({ name }) => (only ?? name) === name);
    rows.sort((one, other) => (one.name < other.name ? -1 : 1));
    return rows.map((row) => ({ ...row, set_aside: asideOf(tables, row.name).length }));
  },

  list_set_aside(tables, [name, limit]: [string, number]) {
    const rows = asideOf(tables, name);
    rows.sort((one, other) => byTime(one.set_aside_at, other.set_aside_at, [one.key, other.key]));
    return rows.slice(0, limit);
  },
};
