import type { StatusChangeResult } from '#idempay/transactions/ports/transaction-store.js';
import { FINAL_STATUSES, type Transaction, type TransactionStatus } from '#idempay/transactions/transaction.js';
import { isLinearizable, type Model, type Operation } from '../../../testkit/checkers/linearizability.js';
import { isNoAnswer } from '../processes.js';
import { whatIsTrue } from '../violation-kinds.js';
import type { Asked } from './clients.js';
import { checkLists } from './list-checker.js';
import { mayLoseMarks } from './plan.js';
import type { TransactionHistory } from './run.js';

/** Checks a history against every promise; returns one sentence for each broken one. */
export function checkTransactions(history: TransactionHistory): string[] {
  const { clients, hot, bugs } = history;
  const initial = new Map(hot.map((transaction) => [transaction.id, transaction]));
  for (const { answer } of clients.created) if (!isNoAnswer(answer)) initial.set(answer.id, answer);
  const byId = new Map<number, Asked[]>();
  for (const asked of clients.asked) byId.set(asked.id, [...(byId.get(asked.id) ?? []), asked]);
  return [
    ...bugs.map((bug) => `a bug: ${bug}`),
    ...whatIsTrue({ 'something was never answered': history.lastLookAt === undefined }),
    ...checkIds(history),
    ...checkKeys(history),
    ...checkLists(history),
    ...[...byId].flatMap(([id, asked]) => [
      ...checkReads(id, asked, history),
      ...checkOrder(id, asked, initial.get(id), history),
    ]),
  ];
}

/** Ids are unique, and rise in the order of the answers. */
function checkIds({ clients }: TransactionHistory): string[] {
  const created = clients.created.flatMap(({ key, answer, since, answeredAt = Infinity }) =>
    isNoAnswer(answer) ? [] : { key, id: answer.id, since, answeredAt },
  );
  return created.flatMap(({ key, id, since }, index) =>
    created.flatMap((other, at) =>
      whatIsTrue({
        [`${id} was given twice`]: other.id === id && other.key !== key && at < index,
        [`${key} was told ${id} and ${other.id}`]: other.key === key && other.id !== id && at < index,
        [`${id} was given after ${other.id}`]: other.answeredAt < since && other.id >= id,
      }),
    ),
  );
}

/** However often a create was sent, it made one row, which has its amount; what was acknowledged is that row. */
function checkKeys({ clients, table }: TransactionHistory): string[] {
  const made = [...table.versions.values()].flatMap(([first]) => first ?? []);
  return clients.keys.flatMap((key, index) => {
    const ids = made.filter(({ amount }) => amount === `${index + 1}.5`).map(({ id }) => id);
    const told = clients.created.flatMap(({ key: sent, answer }) => (sent !== key || isNoAnswer(answer) ? [] : answer));
    return whatIsTrue({
      [`${key} made ${ids.length} rows`]: ids.length > 1,
      [`${key} was told a row that was never there`]: told.some(({ id }) => !ids.includes(id)),
      [`${key} was told a row as it was not created`]: told.some(({ version }) => version !== 1),
    });
  });
}

/** In any case, only versions that were committed by then, and none older than an acknowledged one. */
function checkReads(id: number, asked: readonly Asked[], { table }: TransactionHistory): string[] {
  const versions = table.versions.get(id) ?? [];
  const removedAt = table.removedAt.get(id) ?? Infinity;
  return asked.flatMap(({ kind, answer, sentAt, answeredAt = 0 }) => {
    if (kind !== 'get' || isNoAnswer(answer)) return [];
    const read = `${id} was read at ${sentAt.toFixed(1)}`;
    if (answer === 'not found') return whatIsTrue({ [`${read} as not found, and is there`]: removedAt > answeredAt });
    const acknowledged = newestAcknowledged(asked, sentAt);
    const { version } = answer as Transaction;
    const newer = acknowledged === Infinity ? 'its removal' : `version ${acknowledged}`;
    return whatIsTrue({
      [`${read} as it never was`]: !isSameRow(versions[version - 1], answer as Transaction),
      [`${read} in version ${version} after ${newer} had been acknowledged`]: version < acknowledged,
    });
  });
}

/** Infinity: it was removed. */
function newestAcknowledged(asked: readonly Asked[], before: number): number {
  const acknowledged = asked.map(({ kind, answer, answeredAt = Infinity }) => {
    if (kind === 'get' || isNoAnswer(answer) || answeredAt >= before) return 0;
    return answer === 'removed' ? Infinity : (shownBy(answer).version ?? 0);
  });
  return Math.max(0, ...acknowledged);
}

function isSameRow(one: Transaction | undefined, other: Transaction): boolean {
  if (!one) return false;
  return one === other || Object.entries(one).every(([name, value]) => other[name as keyof Transaction] === value);
}

/** If no mark can be lost, all answers about a transaction are as from a single copy, and the last look sees the row. */
function checkOrder(
  id: number,
  asked: readonly Asked[],
  initial: Transaction | undefined,
  history: TransactionHistory,
) {
  const { plan, table, lastLookAt = Infinity } = history;
  if (!initial || plan.faults.some(mayLoseMarks)) return [];
  const row = table.rows.get(id);
  const lastReads = asked.flatMap(({ kind, sentAt, answer }) =>
    kind !== 'get' || sentAt < lastLookAt || isNoAnswer(answer) ? [] : [answer as Transaction | 'not found'],
  );
  const seen = lastReads.map((read) => (read === 'not found' ? undefined : read.version));
  const operations = asked.flatMap((one) => operationOf(one) ?? []);
  return [
    ...seen.filter((version) => version !== row?.version).map((version) => `${id} was read last as ${version}`),
    ...whatIsTrue({ [`the answers about ${id} have no order`]: !isLinearizable(operations, modelOf(initial)) }),
  ];
}

type Output = Transaction | 'not found' | 'removed' | 'precondition failed' | StatusChangeResult;

/** Undefined for an operation that surely did not happen, and for a read that nobody heard of. */
function operationOf(asked: Asked): Operation<Asked, Output> | undefined {
  const { sentAt, answeredAt = 0, answer, kind } = asked;
  const completed = isNoAnswer(answer) ? undefined : { at: answeredAt, output: answer };
  if (answer === 'refused unchanged' || (kind === 'get' && !completed)) return undefined;
  return { invokedAt: sentAt, completed, input: asked };
}

type Row = { readonly there: boolean; readonly version: number; readonly status: TransactionStatus };

const modelOf = ({ version, status }: Transaction): Model<Row, Asked, Output> => ({
  initial: { there: true, version, status },
  name: (row) => (row.there ? `${row.version} ${row.status}` : 'gone'),
  step(row, asked, output) {
    const { answer, next } = answerOf(row, asked);
    return output === undefined || answer === shownBy(output).text ? next : undefined;
  },
  isPast(row, output) {
    const { version: seen } = shownBy(output);
    return seen !== undefined && (!row.there || seen < row.version);
  },
});

/** The answer of a single copy, and its next state. */
function answerOf(row: Row, asked: Asked): { readonly answer: string; readonly next: Row } {
  if (!row.there) return { answer: 'not found', next: row };
  if (asked.kind === 'get') return { answer: `${row.version} ${row.status}`, next: row };
  const isOther = asked.onlyFrom !== undefined && asked.onlyFrom !== row.status;
  if (isOther) return { answer: 'precondition failed', next: row };
  if (asked.kind === 'remove') return { answer: 'removed', next: { ...row, there: false } };
  const { status } = asked;
  if (status !== row.status && FINAL_STATUSES.includes(row.status)) return { answer: `final ${row.status}`, next: row };
  const next = status === row.status ? row : { ...row, status, version: row.version + 1 };
  return { answer: `done ${next.version} ${status}`, next };
}

/** An answer in words, and the version of the row that it shows. */
function shownBy(output: Output): { readonly text: string; readonly version?: number } {
  if (typeof output === 'string') return { text: output };
  if (!('state' in output)) return { text: `${output.version} ${output.status}`, version: output.version };
  const { state } = output;
  if (state !== 'done') return { text: state === 'final' ? `final ${output.status}` : state };
  const { text, version } = shownBy(output.transaction);
  return { text: `done ${text}`, version };
}
