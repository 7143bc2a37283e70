import { createHash } from 'node:crypto';
import type { Transaction, TransactionFilter } from '#idempay/transactions/transaction.js';
import { type AskedForList, isNoAnswer } from './requests.js';
import type { TransactionHistory } from './run.js';
import { matches, type TableState } from './table.js';

/** Every list, and every "not modified", is what there was at one moment between its request and its answer. */
export function judgeLists({ clients, table }: TransactionHistory): string[] {
  const violations: string[] = [];
  for (const list of clients.lists) {
    if (isNoAnswer(list.answer)) continue;
    const { answer, filter, sentAt } = list;
    const when = `the list ${JSON.stringify(filter)} at ${sentAt.toFixed(1)}`;
    const possible = statesDuring(list, table.states).map(({ rows }) => rows.filter((row) => matches(row, filter)));
    const tagged = possible.filter((rows) => tagOf(rows, filter) === answer.tag);
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

const tags = new WeakMap<readonly Transaction[], string>();

/** Spec 4.3: MD5 over the ids in list order, then their number. */
function tagOf(rows: readonly Transaction[], _filter: TransactionFilter): string {
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
