import type { Violation } from '../history/history.js';
import {
  FINAL_STATUSES,
  type Input,
  type Output,
  type Status,
  type TransactionHistory,
} from '../history/transactions.js';
import { checkOrder, type Model } from './linearizability.js';

export const TRANSACTION_RULES = {
  notStale: 'no read by id is older than an acknowledged write, and all accesses fit one order',
} as const;

interface State {
  readonly status: Status | 'gone';
  /**
   * The number of writes. The search puts operations that keep the state first, which is right for reads only: of two concurrent
   * writes the one that sets the present status again may have come after the other.
   */
  readonly writes: number;
}

/** One transaction as if there were no cache, one process and one request at a time. */
const MODEL: Omit<Model<State, Input, Output>, 'initial'> = {
  name: ({ status, writes }) => `${status} ${writes}`,
  step(state, input, output) {
    const { status, writes } = state;
    const right = input.what === 'read' ? status : rightOutput(status, input);
    if (output !== undefined && output !== right) return undefined;
    // A refused write changes nothing, nor does one of unknown outcome that would have been refused.
    if (input.what === 'read' || right !== 'done') return state;
    return { status: input.what === 'delete' ? 'gone' : input.status, writes: writes + 1 };
  },
};

function rightOutput(status: Status | 'gone', input: Exclude<Input, { what: 'read' }>): Output {
  if (status === 'gone') return 'gone';
  if (input.what === 'delete') return 'done';
  if (input.onlyFrom !== undefined && input.onlyFrom !== status) return 'not as expected';
  return FINAL_STATUSES.some((final) => final === status) && status !== input.status ? 'final' : 'done';
}

export function checkTransactions(histories: readonly TransactionHistory[]): Violation[] {
  return histories.flatMap(({ id, status, accesses }) =>
    checkOrder(TRANSACTION_RULES.notStale, `transaction ${id}`, accesses, { ...MODEL, initial: { status, writes: 0 } }),
  );
}
