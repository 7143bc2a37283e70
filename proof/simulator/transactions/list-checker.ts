import type { Transaction, TransactionFilter } from '#idempay/transactions/transaction.js';
import { listTag } from '../../../testkit/checkers/lists.js';
import { isNoAnswer } from '../processes.js';
import { whatIsTrue } from '../violation-kinds.js';
import type { TransactionHistory } from './run.js';

/** Every list, and every "not modified", is what there was at one moment between its request and its answer. */
export function checkLists(history: TransactionHistory): string[] {
  const { clients, table, plan } = history;
  return clients.lists.flatMap(({ answer, answeredAt = 0, filter, sentAt, ifNoneMatch }) => {
    if (isNoAnswer(answer)) return [];
    const next = table.states.findIndex(({ from }) => from >= sentAt);
    let first = Math.max(0, (next < 0 ? table.states.length : next) - 1);
    if (!answer.rows && plan.shape.deployment === 'embedded') first = oldestStateNotYetSeen(first, sentAt, history);
    const possible = table.states.slice(first).filter(({ from }) => from <= answeredAt);
    const tagged = possible
      .map(({ rows }) => rows.filter((row) => matches(row, filter)))
      .filter((rows) => listTag(rows.map(({ id }) => id)) === answer.tag);
    const isOneOf = (sent: readonly Transaction[]) => tagged.some((rows) => nameOf(rows) === nameOf(sent));
    const list = `the list ${JSON.stringify(filter)} at ${sentAt.toFixed(1)}`;
    if (tagged.length === 0) return [`${list} has a tag that no list of that time had`];
    const isKnown = answer.tag === ifNoneMatch;
    return whatIsTrue({
      [`${list} is not modified, by a tag that nobody sent`]: !answer.rows && !isKnown,
      [`${list} has rows that do not fit its tag`]: answer.rows && !isOneOf(answer.rows),
      [`${list} was sent to somebody who has it`]: answer.rows && isKnown,
    });
  });
}

/**
 * The embedded store knows its list version from the writer's answers: a commit that no client was answered or
 * shown may as well not have happened yet.
 */
function oldestStateNotYetSeen(first: number, sentAt: number, { clients, table }: TransactionHistory): number {
  const before = <R extends { readonly answeredAt?: number }>(requests: readonly R[]) =>
    requests.filter(({ answeredAt = Infinity }) => answeredAt < sentAt);
  const known = new Set(
    [
      ...before(clients.created).map(({ answer }) => answer),
      ...before(clients.lists).map(({ answer }) => answer),
    ].flatMap((answer) =>
      (isNoAnswer(answer) ? [] : 'tag' in answer ? (answer.rows ?? []) : [answer]).map(({ id }) => id),
    ),
  );
  const gone = new Set(before(clients.asked).flatMap(({ answer, id }) => (answer === 'removed' ? [id] : [])));
  let oldest = first;
  while (oldest > 0) {
    const [rows, after] = [table.states[oldest - 1]?.rows ?? [], table.states[oldest]?.rows ?? []];
    const isCreate = after.length > rows.length;
    const removed = rows.find(({ id }) => !after.some((row) => row.id === id));
    if (isCreate ? known.has(after.at(-1)?.id ?? 0) : gone.has(removed?.id ?? 0)) break;
    oldest -= 1;
  }
  return oldest;
}

const matches = ({ fromAccount, toAccount }: Transaction, { from, to }: TransactionFilter) =>
  (from === '' || from === fromAccount) && (to === '' || to === toAccount);

const nameOf = (rows: readonly Transaction[]) =>
  rows.map(({ id, version, status }) => `${id} ${version} ${status}`).join();
