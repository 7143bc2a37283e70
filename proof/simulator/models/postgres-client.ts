import { StoreUnavailable } from '#idempay/platform/faults.js';
import type { Postgres, Statement } from '#idempay/stores/postgres/connection/postgres.js';
import type { Line } from './line.js';
import type { PostgresServer, Rows, Tables, Values } from './postgres-server.js';

/** Statements whose first value is no key. */
const ABOUT_NO_KEY =
  /^(cache_epoch_of|create_transactions|find_creation|sweep_|list_|removals_since|newest_|payments_of_|nth_|settle(d|ment|ments)_|count_|note_|begin_|old_|take_over_abandoned|forget_hours|advance_horizon|remove_settled)/;

/** The part of the pool of connections that the adapters use, over a line to a modelled server. */
export function connectPostgres(server: PostgresServer, line: Line): Postgres {
  function subjectsOf({ name }: Statement, [first]: Values): readonly string[] {
    return first === undefined || ABOUT_NO_KEY.test(name) ? [line.caller] : [first].flat().map(String);
  }

  /** If nothing was to be written, a lost reply leaves everything as it was. */
  function read(statement: Statement, values: Values = [], tables?: () => Tables): Promise<Rows> {
    const serve = (reply: (rows: Rows) => void) => reply(server.read(statement, values, tables?.()));
    return line.send(statement.name, subjectsOf(statement, values), serve).catch((fault: Error) => {
      throw new StoreUnavailable('unchanged', fault.message, fault);
    });
  }

  const write = (statement: Statement, values: Values = []) =>
    line.send<Rows>(statement.name, subjectsOf(statement, values), (reply, refuse) =>
      server.execute(statement, values, reply, refuse),
    );

  /** A connection of one's own, which a list is read over: all in the snapshot of its first statement. */
  async function connect() {
    let snapshot: Tables | undefined;
    const inSnapshot = () => {
      snapshot ??= server.snapshot();
      return snapshot;
    };
    return {
      query: async (asked: string | (Statement & { readonly values: Values })) => ({
        rows: typeof asked === 'string' ? [] : await read(asked, asked.values, inSnapshot),
      }),
      release() {},
    };
  }

  return { read, write, writeHoweverLate: write, connect } as unknown as Postgres;
}
