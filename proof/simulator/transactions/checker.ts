import { FINAL_STATUSES, type Transaction, type TransactionStatus } from '#idempay/transactions/transaction.js';
import type { StatusChangeResult } from '#idempay/transactions/transaction-store.js';
import { isLinearizable, type Model, type Operation } from '../../../testkit/checkers/linearizability.js';
import { isNoAnswer } from '../processes.js';
import { checkLists } from './list-checker.js';
import { mayLoseMarks } from './plan.js';
import type { Asked } from './requests.js';
import type { TransactionHistory } from './run.js';

/** Holds a history against every promise; one sentence for each that was broken. */
export function checkTransactions(history: TransactionHistory): string[] {
  const { clients, hot, bugs } = history;
  const violations = bugs.map((bug) => `a bug: ${bug}`);
  if (history.lastLookAt === undefined) violations.push('something was never answered');
  violations.push(...checkIds(history), ...checkLists(history));

  const byId = new Map<number, Asked[]>();
  for (const asked of clients.asked) {
    const others = byId.get(asked.id);
    if (others) others.push(asked);
    else byId.set(asked.id, [asked]);
  }
  const initial = new Map(hot.map((transaction) => [transaction.id, transaction]));
  for (const { answer } of clients.created) if (!isNoAnswer(answer)) initial.set(answer.id, answer);
  for (const [id, asked] of byId) {
    violations.push(...checkReads(id, asked, history));
    violations.push(...checkOrder(id, asked, initial.get(id), history));
  }
  return violations;
}

/** Ids are unique, and rise in the order of the answers. */
function checkIds({ clients }: TransactionHistory): string[] {
  const violations: string[] = [];
  const ids = new Set<number>();
  for (const created of clients.created) {
    const { answer, sentAt } = created;
    if (isNoAnswer(answer)) continue;
    if (ids.has(answer.id)) violations.push(`${answer.id} was given twice`);
    ids.add(answer.id);
    for (const before of clients.created) {
      if (isNoAnswer(before.answer) || (before.answeredAt ?? Infinity) >= sentAt) continue;
      if (before.answer.id >= answer.id) violations.push(`${answer.id} was given after ${before.answer.id}`);
    }
  }
  return violations;
}

/** Whatever happens: only what was committed by then, and nothing older than what was acknowledged before. */
function checkReads(id: number, asked: readonly Asked[], { table }: TransactionHistory): string[] {
  const violations: string[] = [];
  const versions = table.versions.get(id) ?? [];
  const removedAt = table.removedAt.get(id) ?? Infinity;
  for (const read of asked) {
    if (read.kind !== 'get' || isNoAnswer(read.answer)) continue;
    const { answer, sentAt, answeredAt = 0 } = read;
    const when = `at ${sentAt.toFixed(1)}`;
    const acknowledged = newestAcknowledged(asked, sentAt);
    if (answer === 'not found') {
      if (removedAt > answeredAt) violations.push(`${id} was not found ${when}, and is there`);
      continue;
    }
    if (!sameRow(versions[answer.version - 1], answer)) violations.push(`${id} was read ${when} as it never was`);
    if (acknowledged === 'removed') violations.push(`${id} was read ${when} after its removal had been acknowledged`);
    else if (answer.version < acknowledged) {
      violations.push(`${id} was read ${when} in version ${answer.version}, acknowledged was ${acknowledged}`);
    }
  }
  return violations;
}

function newestAcknowledged(asked: readonly Asked[], before: number): number | 'removed' {
  let newest = 0;
  for (const write of asked) {
    if (write.kind === 'get' || isNoAnswer(write.answer) || (write.answeredAt ?? Infinity) >= before) continue;
    if (write.answer === 'removed') return 'removed';
    if (typeof write.answer === 'object' && write.answer.state === 'done') {
      newest = Math.max(newest, write.answer.transaction.version);
    }
  }
  return newest;
}

function sameRow(one: Transaction | undefined, other: Transaction): boolean {
  if (!one) return false;
  return one === other || Object.entries(one).every(([name, value]) => other[name as keyof Transaction] === value);
}

/** Where no mark can be lost, all answers about a transaction are those of a single copy, and the last look sees the row. */
function checkOrder(
  id: number,
  asked: readonly Asked[],
  initial: Transaction | undefined,
  { plan, table, lastLookAt = Infinity }: TransactionHistory,
): string[] {
  if (!initial || plan.faults.some(mayLoseMarks)) return [];
  const violations: string[] = [];
  const row = table.rows.get(id);
  for (const { kind, sentAt, answer } of asked) {
    if (kind !== 'get' || sentAt < lastLookAt || isNoAnswer(answer)) continue;
    const last = answer as Transaction | 'not found';
    const right = last === 'not found' ? row === undefined : last.version === row?.version;
    if (!right) violations.push(`${id} was read last as ${last === 'not found' ? last : last.version}`);
  }
  const operations = asked.flatMap((one) => operationOf(one) ?? []);
  if (!isLinearizable(operations, modelOf(initial))) violations.push(`the answers about ${id} have no order`);
  return violations;
}

type Output = Transaction | 'not found' | 'removed' | 'precondition failed' | StatusChangeResult;

/** Undefined for what surely did not happen, and for a read that nobody heard of. */
function operationOf(asked: Asked): Operation<Asked, Output> | undefined {
  const { sentAt, answeredAt = 0, answer, kind } = asked;
  if (answer === 'refused unchanged') return undefined;
  if (isNoAnswer(answer)) {
    return kind === 'get' ? undefined : { invokedAt: sentAt, completed: undefined, input: asked };
  }
  return { invokedAt: sentAt, completed: { at: answeredAt, output: answer }, input: asked };
}

interface Row {
  readonly there: boolean;
  readonly version: number;
  readonly status: TransactionStatus;
}

function modelOf({ version, status }: Transaction): Model<Row, Asked, Output> {
  return {
    initial: { there: true, version, status },
    name: (row) => (row.there ? `${row.version} ${row.status}` : 'gone'),
    step(row, asked, output) {
      const { answer, next } = answerOf(row, asked);
      return output === undefined || answer === describe(output) ? next : undefined;
    },
    isPast(row, output) {
      const version = versionIn(output);
      return version !== undefined && (!row.there || version < row.version);
    },
  };
}

/** What a single copy says, and what becomes of it. */
function answerOf(row: Row, asked: Asked): { readonly answer: string; readonly next: Row } {
  if (!row.there) return { answer: 'not found', next: row };
  if (asked.kind === 'get') return { answer: `${row.version} ${row.status}`, next: row };
  if (asked.onlyFrom !== undefined && asked.onlyFrom !== row.status)
    return { answer: 'precondition failed', next: row };
  if (asked.kind === 'remove') return { answer: 'removed', next: { ...row, there: false } };
  const { status } = asked;
  if (status === row.status) return { answer: `done ${row.version} ${status}`, next: row };
  if (FINAL_STATUSES.includes(row.status)) return { answer: `final ${row.status}`, next: row };
  const next = { ...row, status, version: row.version + 1 };
  return { answer: `done ${next.version} ${status}`, next };
}

/** Versions only rise. */
function versionIn(output: Output): number | undefined {
  if (typeof output === 'string') return undefined;
  if (!('state' in output)) return output.version;
  return output.state === 'done' ? output.transaction.version : undefined;
}

function describe(output: Output): string {
  if (typeof output === 'string') return output;
  if (!('state' in output)) return `${output.version} ${output.status}`;
  switch (output.state) {
    case 'done':
      return `done ${output.transaction.version} ${output.transaction.status}`;
    case 'final':
      return `final ${output.status}`;
    default:
      return output.state;
  }
}
