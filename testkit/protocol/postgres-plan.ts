import type pg from 'pg';
import type { Statement } from '#idempay/deployments/distributed/postgres/postgres.js';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly Plans?: readonly PlanNode[];
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
}

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
  const execute = `EXECUTE page (${literals.join(', ')})`;
  if (mode === 'auto') for (let time = 0; time < UNTIL_THE_PLAN_IS_KEPT; time += 1) await client.query(execute);
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    `EXPLAIN (FORMAT JSON${executed ? ', ANALYZE, BUFFERS' : ''}) ${execute}`,
  );
  await client.query('DEALLOCATE page');
  const all = rows.flatMap((row) => row['QUERY PLAN'].flatMap(({ Plan }) => withChildren(Plan)));
  const root = rows[0]?.['QUERY PLAN'][0].Plan;
  return {
    blocks: (root?.['Shared Hit Blocks'] ?? 0) + (root?.['Shared Read Blocks'] ?? 0),
    nodes: all.map((node) => node['Node Type']),
    indexes: all.flatMap((node) => node['Index Name'] ?? []),
    tables: all.flatMap((node) => (node['Node Type'] === 'Seq Scan' ? (node['Relation Name'] ?? []) : [])),
  };
}

function withChildren(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(withChildren)];
}
