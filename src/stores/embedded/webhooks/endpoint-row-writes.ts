import type { FeedPosition } from '../../../payments/settlement-feed.js';
import type { Lease } from '../../../webhooks/ports/endpoint-rows.js';
import type { TakenRow } from '../../shared/endpoint-rows.js';
import { BEGIN_EARLIER_US } from '../../shared/settlement-reads.js';
import type { Database } from '../file/sqlite.js';

const FIND = 'SELECT * FROM webhook_endpoints WHERE name = ?';
const OWN = 'UPDATE webhook_endpoints SET owner = ?, lease_until = ? WHERE name = ?';
const COUNT = `
  SELECT count(*) AS count, ifnull(min(next_try_at) <= ?2, 0) AS is_due FROM webhook_set_aside WHERE endpoint = ?1`;
/** The incarnation before the first one that is young. NULL if rows cannot have been lost in this time. */
const BEFORE_LOSS = `(
    SELECT former.incarnation FROM settlement_incarnations AS young
    JOIN settlement_incarnations AS former ON former.number = young.number - 1
    WHERE young.began_at > ?6 - ${BEGIN_EARLIER_US / 1_000} ORDER BY young.number LIMIT 1)`;
/** Nothing tells a row that was lost from a new one. */
const BEGIN = `
  INSERT INTO webhook_endpoints (name, client, incarnation, at_us, key, lease_until) VALUES (?1, ?2, ifnull(${BEFORE_LOSS}, ?3), ?4, ?5, 0)
  ON CONFLICT (name) DO UPDATE
    SET client = excluded.client, incarnation = excluded.incarnation, at_us = excluded.at_us, key = excluded.key, owner = NULL
    WHERE client IS NOT excluded.client AND (owner IS NULL OR lease_until <= ?6)`;
const FORGET = 'DELETE FROM webhook_set_aside WHERE endpoint = ?';
const ADVANCE = 'UPDATE webhook_endpoints SET incarnation = ?, at_us = ?, key = ? WHERE name = ?';
const IS_SET_ASIDE = 'SELECT 1 FROM webhook_set_aside WHERE endpoint = ? AND key = ?';
const SET_ASIDE = `
  INSERT INTO webhook_set_aside (endpoint, key, cause, set_aside_at, next_try_at) VALUES (?, ?, ?, ?, ?)`;
const REFUSED_AGAIN = `
  UPDATE webhook_set_aside SET cause = ?3, next_try_at = CASE WHEN ?4 < set_aside_at + ?6 THEN ?5 END
  WHERE endpoint = ?1 AND key = ?2`;
const REMOVE = 'DELETE FROM webhook_set_aside WHERE endpoint = ? AND key = ?';
const STOP_SERVING = "UPDATE webhook_endpoints SET stopped_by = 'receiver', owner = NULL WHERE name = ?";
const RELEASE = 'UPDATE webhook_endpoints SET owner = NULL WHERE name = ? AND owner = ?';
/** An endpoint that its receiver has stopped stays so. */
const STOP = "UPDATE webhook_endpoints SET stopped_by = ifnull(stopped_by, 'operator'), owner = NULL WHERE name = ?";
const START = 'UPDATE webhook_endpoints SET stopped_by = NULL WHERE name = ?';
const RESEND = 'UPDATE webhook_set_aside SET next_try_at = ?3 WHERE endpoint = ?1 AND (?2 IS NULL OR key = ?2)';

interface EndpointColumns {
  readonly name: string;
  readonly client: string | null;
  readonly stopped_by: 'receiver' | 'operator' | null;
  readonly incarnation: string;
  readonly at_us: number;
  readonly key: string | null;
  readonly owner: string | null;
  readonly lease_until: number;
}

/** A text that does not arrive is null. */
type Sent<Input> = { readonly [Name in keyof Input]: Exclude<Input[Name], undefined> | null };

/** Runs in the writer thread, in the transaction of its batch. What an owner writes is fenced by the row. */
export function createEndpointWrites(database: Database, storeClock: () => number) {
  const prepared = (sql: string) => database.prepare(sql);
  const find = prepared(FIND);
  const own = prepared(OWN);
  const count = prepared(COUNT);
  const begin = prepared(BEGIN);
  const forget = prepared(FORGET);
  const advance = prepared(ADVANCE);
  const isSetAside = prepared(IS_SET_ASIDE);
  const setAside = prepared(SET_ASIDE);
  const refusedAgain = prepared(REFUSED_AGAIN);
  const remove = prepared(REMOVE);
  const stopServing = prepared(STOP_SERVING);
  const release = prepared(RELEASE);
  const stop = prepared(STOP);
  const start = prepared(START);
  const resend = prepared(RESEND);

  const rowOf = (name: string) => find.get(name) as EndpointColumns | undefined;
  const setAsideOf = (name: string) => count.get(name, storeClock()) as { count: number; is_due: number };

  function owned({ name, owner }: Lease): boolean {
    const row = rowOf(name);
    return row !== undefined && row.owner === owner && row.stopped_by === null;
  }

  function ifOwned(lease: Lease, change: () => unknown): boolean {
    if (!owned(lease)) return false;
    change();
    return true;
  }

  return {
    takeEndpoint(asked: Lease & { client: string | null; leaseMs: number }): TakenRow | null {
      const { name, owner, client, leaseMs } = asked;
      const now = storeClock();
      const row = rowOf(name);
      if (!row) return null;
      const isFree = row.owner === null || row.owner === owner || row.lease_until <= now;
      const taken = isFree && row.client === client && row.stopped_by === null;
      if (taken) own.run(owner, now + leaseMs, name);
      const { count: set_aside, is_due } = setAsideOf(name);
      return { ...row, is_other: isFree && row.client !== client, taken, set_aside, is_due };
    },

    beginEndpoint({
      name,
      client,
      incarnation,
      atUs,
      key,
    }: Sent<FeedPosition> & { name: string; client: string | null }) {
      const { changes } = begin.run(name, client, incarnation, atUs, key, storeClock());
      if (changes > 0) forget.run(name);
    },

    advanceEndpoint: ({ incarnation, atUs, key, ...lease }: Sent<FeedPosition> & Lease): boolean =>
      ifOwned(lease, () => advance.run(incarnation, atUs, key, lease.name)),

    setSettlementAside(input: Lease & { key: string; cause: string; retryMs: number; mostSetAside: number }) {
      const { name, key, cause, retryMs, mostSetAside } = input;
      if (!owned(input)) return 'stale';
      if (isSetAside.get(name, key)) return 'ok';
      if (setAsideOf(name).count >= mostSetAside) return 'full';
      const now = storeClock();
      setAside.run(name, key, cause, now, now + retryMs);
      return 'ok';
    },

    settlementRefusedAgain(input: Lease & { key: string; cause: string; retryMs: number; giveUpMs: number }): boolean {
      const { name, key, cause, retryMs, giveUpMs } = input;
      const now = storeClock();
      return ifOwned(input, () => refusedAgain.run(name, key, cause, now, now + retryMs, giveUpMs));
    },

    removeSetAside: ({ key, ...lease }: Lease & { key: string }): boolean =>
      ifOwned(lease, () => remove.run(lease.name, key)),

    stopServingEndpoint: (lease: Lease): boolean => ifOwned(lease, () => stopServing.run(lease.name)),

    releaseEndpoint({ name, owner }: Lease): void {
      release.run(name, owner);
    },

    stopEndpoint: ({ name }: { name: string }): boolean => stop.run(name).changes > 0,
    startEndpoint: ({ name }: { name: string }): boolean => start.run(name).changes > 0,

    resendSettlements({ name, key }: { name: string; key: string | null }): number | null {
      if (!rowOf(name)) return null;
      return Number(resend.run(name, key, storeClock()).changes);
    },
  };
}
