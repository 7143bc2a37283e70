import type pg from 'pg';
import type { Statement } from '#idempay/deployments/distributed/postgres/postgres.js';

/** PostgreSQL keeps a plan for all parameters after five executions with plans of their own, if that seems as good. */
const UNTIL_THE_PLAN_IS_KEPT = 10;

/**
 * The kinds of nodes of the plan, the indexes that it reads, and the tables that it reads from end to end; of a statement that
 * is `executed` also how many blocks it touched. With `auto` it is the plan that is used after several executions.
 */
export async function planOf(
  client: pg.Client,
  statement: Statement,
  mode: string,
  values: readonly (string | number)[],
  { executed = false } = {},
) {
  await client.query(`SET plan_cache_mode = ${mode}`);
  await client.query(`PREPARE page AS ${statement.text}`);
  const literals = values.map((value) => (typeof value === 'number' ? String(value) : client.escapeLiteral(value)));
  const execute = literals.length > 0 ? `EXECUTE page (${literals.join(', ')})` : 'EXECUTE page';
  if (mode === 'auto') for (let time = 0; time < UNTIL_THE_PLAN_IS_KEPT; time += 1) await client.query(execute);
  const { rows } = await client.query(`EXPLAIN (FORMAT JSON${executed ? ', ANALYZE, BUFFERS' : ''}) ${execute}`);
  await client.query('DEALLOCATE page');
  const plan = JSON.stringify(rows);
  const all = (pattern: RegExp) => Array.from(plan.matchAll(pattern), ([, found = '']) => found);
  // Those of the root stand first, and count what is below it too.
  const [hit = 0] = all(/"Shared Hit Blocks":(\d+)/g).map(Number);
  const [read = 0] = all(/"Shared Read Blocks":(\d+)/g).map(Number);
  return {
    blocks: hit + read,
    nodes: all(/"Node Type":"([^"]*)"/g),
    indexes: all(/"Index Name":"([^"]*)"/g),
    tables: all(/"Node Type":"Seq Scan"[^{}]*?"Relation Name":"([^"]*)"/g),
  };
}
