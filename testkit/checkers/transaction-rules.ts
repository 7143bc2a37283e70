import { type Model, type Operation, whyNoOrder } from './linearizability.js';
import type { Violation } from './payment-evidence.js';

/** What one request asked of one transaction. */
export type Input =
  | { readonly what: 'read' }
  /** `onlyFrom`: only where it has this status, by an `If-Match` with the tag of that. */
  | { readonly what: 'change'; readonly status: string; readonly onlyFrom?: string | undefined }
  | { readonly what: 'delete' };

/**
 * What it was answered: of a read the status that was shown (by a 304 too: the one whose tag it confirmed), or that there
 * is no such transaction; of a write that it was done, that there is none, that its status is final, or another one than the
 * write was only for.
 */
export type Output = string;
export const GONE = 'gone';
export const DONE = 'done';
export const FINAL = 'final';
export const NOT_AS_EXPECTED = 'not as expected';

export type Access = Operation<Input, Output> & { readonly at?: string };

/** Every access to one transaction from its creation on. */
export interface TransactionHistory {
  readonly id: number;
  /** As it was created. */
  readonly status: string;
  readonly accesses: Access[];
}

export const TRANSACTION_RULES = {
  notStale: 'no read by id is older than an acknowledged write, and all accesses fit one order',
} as const;

/** The statuses that nothing leaves (decisions T4). */
const FINAL_STATUSES = ['FAILED', 'CANCELLED'];

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
  if (input.what === 'change' && FINAL_STATUSES.includes(status) && status !== input.status) return FINAL;
  return DONE;
}

export function judgeTransactions(histories: Iterable<TransactionHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const { id, status, accesses } of histories) {
    const why = whyNoOrder(accesses, transactionModel(status));
    if (why === undefined) continue;
    violations.push({
      rule: TRANSACTION_RULES.notStale,
      subject: `transaction ${id}`,
      what: `${accesses.length} accesses, created as ${status}: ${why}`,
      journal: [...accesses].sort((one, other) => one.invokedAt - other.invokedAt),
    });
  }
  return violations;
}
