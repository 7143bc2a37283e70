import type { Violation } from '../history/history.js';
import {
  DONE,
  FINAL,
  FINAL_STATUSES,
  GONE,
  type Input,
  NOT_AS_EXPECTED,
  type Output,
  type TransactionHistory,
} from '../history/transactions.js';
import { type Model, whyNoOrder } from './linearizability.js';

export const TRANSACTION_RULES = {
  notStale: 'no read by id is older than an acknowledged write, and all accesses fit one order',
} as const;

interface State {
  readonly status: string;
  /**
   * How many writes there were. The search puts whatever leaves a state as it is first, which is right for reads only: of
   * two writes at once the one that sets what is there already may have come after the other.
   */
  readonly writes: number;
}

/** One transaction as if there were no cache, one process and one request at a time. */
export function transactionModel(status: string): Model<State, Input, Output> {
  return { initial: { status, writes: 0 }, step, name: (state) => `${state.status} ${state.writes}` };
}

function step(state: State, input: Input, output: Output | undefined): State | undefined {
  const { status, writes } = state;
  if (input.what === 'read') return output === undefined || output === status ? state : undefined;
  const right = rightOutput(status, input);
  if (output !== undefined && output !== right) return undefined;
  // One that was refused, or whose outcome is not known and that would have been, is as good as none.
  if (right !== DONE) return state;
  return { status: input.what === 'delete' ? GONE : input.status, writes: writes + 1 };
}

/** What a write must be answered in this status. */
function rightOutput(status: string, input: Exclude<Input, { what: 'read' }>): Output {
  if (status === GONE) return GONE;
  if (input.what === 'change' && input.onlyFrom !== undefined && input.onlyFrom !== status) return NOT_AS_EXPECTED;
  if (input.what === 'change' && FINAL_STATUSES.some((each) => each === status) && status !== input.status)
    return FINAL;
  return DONE;
}

export function checkTransactions(histories: Iterable<TransactionHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const { id, status, accesses } of histories) {
    const why = whyNoOrder(accesses, transactionModel(status));
    if (why === undefined) continue;
    violations.push({
      rule: TRANSACTION_RULES.notStale,
      subject: `transaction ${id}`,
      what: `${accesses.length} accesses, created as ${status}: ${why}`,
      history: [...accesses].sort((one, other) => one.invokedAt - other.invokedAt),
    });
  }
  return violations;
}
