import { useEffect, useState } from 'preact/hooks';
import type { StatementHead } from '../../../src/statements/format.js';
import type { Progress, Reconciliation } from '../../../src/statements/reconcile.js';
import type { Reading } from '../../../src/statements/row.js';
import type { Http } from '../http/http.js';
import { isAborted, sentenceOf } from '../http/service-error.js';
import { compareStatement, lookAtStatement } from './reconciler.js';

export interface ChosenStatement {
  readonly file: File;
  readonly head: StatementHead;
  readonly reading: Reading;
}

export interface Compared {
  readonly day: string;
  readonly processor: string;
  readonly statement: string;
  readonly result: Reconciliation;
  readonly differences: Blob;
}

interface State {
  readonly chosen?: ChosenStatement | undefined;
  readonly compared?: Compared | undefined;
}

/** Left for a payment and come back to: what was compared is still there. Forgotten with the session, whose `Http` it is. */
const kept = new WeakMap<Http, State>();

export function useReconciliation(http: Http) {
  const [state, setState] = useState<State>(() => kept.get(http) ?? {});
  const [problem, setProblem] = useState<string>();
  const [progress, setProgress] = useState<Progress>();
  const [controller, setController] = useState<AbortController>();
  useEffect(() => void kept.set(http, state), [http, state]);
  useEffect(() => () => controller?.abort(), [controller]);

  async function run(work: (signal: AbortSignal) => Promise<State>): Promise<void> {
    const own = new AbortController();
    setController(own);
    setProblem(undefined);
    try {
      const next = await work(own.signal);
      if (!own.signal.aborted) setState(next);
    } catch (error) {
      if (!own.signal.aborted && !isAborted(error)) setProblem(sentenceOf(error));
    } finally {
      setProgress(undefined);
    }
  }

  return {
    ...state,
    problem,
    /** How far a comparison is; undefined while nothing is compared. */
    progress,

    /** `delimiter`: as a person says; else it is recognised. */
    choose: (file: File, delimiter?: string) =>
      run(async (signal) => {
        setState({});
        const head = await lookAtStatement(file, delimiter, signal);
        return { chosen: { file, head, reading: { columns: head.columns, currency: head.currency } } };
      }),

    assign(reading: Reading) {
      setState(({ chosen, compared }) => ({ chosen: chosen && { ...chosen, reading }, compared }));
    },

    compare: (day: string, processor: string) =>
      run(async (signal) => {
        const { chosen } = state;
        if (!chosen) return state;
        setState({ chosen });
        setProgress({ rows: 0, payments: 0 });
        const { file, head, reading } = chosen;
        const comparing = { file, format: head.format, reading, day, processor };
        const compared = await compareStatement(http, comparing, setProgress, signal);
        return { chosen, compared: { day, processor, statement: file.name, ...compared } };
      }),

    cancel: () => controller?.abort(),
  };
}
