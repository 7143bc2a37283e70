import pg from 'pg';
import type { Statement } from '#idempay/stores/postgres/connection/postgres.js';

/** PostgreSQL keeps a plan for all parameters after five executions with plans of their own, if that seems as good. */
const UNTIL_THE_PLAN_IS_KEPT = 10;

export type PlanValue = string | number | null | readonly (string | number | null)[];

/**
 * The kinds of nodes of the plan, the indexes that it reads, and the tables that it reads from end to end; if the statement is
 * `executed`, also how many blocks it touched. With `auto` it is the plan that is used after several executions.
 */
export async function planOf(
  client: pg.ClientBase,
  statement: Statement,
  mode: string,
  values: readonly PlanValue[],
  { executed = false } = {},
) {
  await client.query(`SET plan_cache_mode = ${mode}`);
  await client.query(`PREPARE page AS ${statement.text}`);
  const execute = executionOf('page', values);
  if (mode === 'auto') for (let time = 0; time < UNTIL_THE_PLAN_IS_KEPT; time += 1) await client.query(execute);
  const plan = await explain(client, execute, executed);
  await client.query('DEALLOCATE page');
  return plan;
}

/** Lets the connection keep the plan that it makes now. The returned function executes the statement, and reads that plan. */
export async function keepPlan(client: pg.ClientBase, { name, text }: Statement, values: readonly PlanValue[]) {
  const execute = executionOf(`kept_${name}`, values);
  await client.query(`PREPARE kept_${name} AS ${text}`);
  await client.query(`EXPLAIN ${execute}`);
  return () => explain(client, execute, true);
}

function executionOf(prepared: string, values: readonly PlanValue[]): string {
  const literals = values.map((value) => {
    if (value === null || typeof value === 'number') return String(value);
    return pg.escapeLiteral(
      typeof value === 'string' ? value : `{${value.map((one) => JSON.stringify(one)).join(',')}}`,
    );
  });
  return literals.length > 0 ? `EXECUTE ${prepared} (${literals.join(', ')})` : `EXECUTE ${prepared}`;
}

async function explain(client: pg.ClientBase, execute: string, executed: boolean) {
  const { rows } = await client.query(`EXPLAIN (FORMAT JSON${executed ? ', ANALYZE, BUFFERS' : ''}) ${execute}`);
  const plan = JSON.stringify(rows);
  const all = (pattern: RegExp) => Array.from(plan.matchAll(pattern), ([, found = '']) => found);
  // The root's figures stand first, and include the nodes below it.
  const [hit = 0] = all(/"Shared Hit Blocks":(\d+)/g).map(Number);
  const [read = 0] = all(/"Shared Read Blocks":(\d+)/g).map(Number);
  return {
    blocks: hit + read,
    nodes: all(/"Node Type":"([^"]*)"/g),
    indexes: all(/"Index Name":"([^"]*)"/g),
    tables: all(/"Node Type":"Seq Scan"[^{}]*?"Relation Name":"([^"]*)"/g),
  };
}
