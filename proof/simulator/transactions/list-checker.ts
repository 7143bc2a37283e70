import { createHash } from 'node:crypto';
import type { Transaction } from '#idempay/transactions/transaction.js';
import { isNoAnswer } from '../processes.js';
import { matches, type TableState } from './observed-transactions.js';
import type { AskedForList } from './requests.js';
import type { TransactionHistory } from './run.js';

/** Every list, and every "not modified", is what there was at one moment between its request and its answer. */
export function checkLists(history: TransactionHistory): string[] {
  const { clients, table } = history;
  const violations: string[] = [];
  for (const list of clients.lists) {
    if (isNoAnswer(list.answer)) continue;
    const { answer, filter, sentAt } = list;
    const when = `the list ${JSON.stringify(filter)} at ${sentAt.toFixed(1)}`;
    const possible = statesDuring(list, table.states);
    if (answer.rows === undefined && history.plan.shape.deployment === 'embedded') {
      possible.unshift(...earlierStatesNotYetSeen(possible[0], sentAt, history));
    }
    const filtered = possible.map(({ rows }) => rows.filter((row) => matches(row, filter)));
    const tagged = filtered.filter((rows) => tagOf(rows) === answer.tag);
    if (tagged.length === 0) violations.push(`${when} has a tag that no list of that time had`);
    else if (answer.rows === undefined) {
      if (answer.tag !== list.ifNoneMatch) violations.push(`${when} is not modified, by a tag that nobody sent`);
    } else {
      const sent = nameOf(answer.rows);
      if (!tagged.some((rows) => nameOf(rows) === sent)) violations.push(`${when} has rows that do not fit its tag`);
      if (answer.tag === list.ifNoneMatch) violations.push(`${when} was sent to somebody who has it`);
    }
  }
  return violations;
}

function statesDuring({ sentAt, answeredAt = 0 }: AskedForList, states: readonly TableState[]): TableState[] {
  return states.filter(({ from }, index) => from <= answeredAt && (states[index + 1]?.from ?? Infinity) >= sentAt);
}

/**
 * The embedded store knows its list version from the writer's answers: a commit that no client was answered or
 * shown may as well not have happened yet.
 */
function earlierStatesNotYetSeen(
  first: TableState | undefined,
  sentAt: number,
  { clients, table }: TransactionHistory,
): TableState[] {
  const states: TableState[] = [];
  for (let index = first ? table.states.indexOf(first) : 0; index > 0; index -= 1) {
    const { created, removed } = differenceBefore(index, table.states);
    const acknowledgedCreate = clients.created.some(
      ({ answer, answeredAt = Infinity }) => !isNoAnswer(answer) && answer.id === created && answeredAt < sentAt,
    );
    const acknowledgedRemoval = clients.asked.some(
      ({ id, answer, answeredAt = Infinity }) => answer === 'removed' && id === removed && answeredAt < sentAt,
    );
    const shown = clients.lists.some(
      ({ answer, answeredAt = Infinity }) =>
        !isNoAnswer(answer) && answeredAt < sentAt && answer.rows?.some(({ id }) => id === created),
    );
    if (acknowledgedCreate || acknowledgedRemoval || shown) break;
    states.unshift(table.states[index - 1] as TableState);
  }
  return states;
}

/** What one commit did to the ids of the list of all. */
function differenceBefore(index: number, states: readonly TableState[]) {
  const [before, after] = [states[index - 1]?.rows ?? [], states[index]?.rows ?? []];
  const idOf = (row: Transaction | undefined) => row?.id;
  if (after.length > before.length) return { created: idOf(after.at(-1)), removed: undefined };
  const removed = before.find(({ id }) => !after.some((row) => row.id === id));
  return { created: undefined, removed: idOf(removed) };
}

const tags = new WeakMap<readonly Transaction[], string>();

/** Spec 4.3: MD5 over the ids in list order, then their number. */
function tagOf(rows: readonly Transaction[]): string {
  let tag = tags.get(rows);
  if (tag === undefined) {
    tag = createHash('md5')
      .update(`${rows.map(({ id }) => id).join('')}${rows.length}`)
      .digest('hex');
    tags.set(rows, tag);
  }
  return tag;
}

function nameOf(rows: readonly Transaction[]): string {
  return rows.map(({ id, version, status }) => `${id} ${version} ${status}`).join();
}
