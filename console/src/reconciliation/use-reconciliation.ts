import {
  type Columns,
  currencyOfAmounts,
  type Progress,
  type Reading,
  type Reconciliation,
  repeatedMembers,
  type StatementHead,
} from '@idempay/statements';
import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { useWork } from '../parts/use-work.js';
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

/** A person who leaves for a payment and comes back finds the comparison still there. Forgotten with the session, whose `Http` it is. */
const kept = new WeakMap<Http, State>();

export function useReconciliation(http: Http) {
  const [state, setState] = useState<State>(() => kept.get(http) ?? {});
  const [progress, setProgress] = useState<Progress>();
  const { problem, isWorking, run, cancel } = useWork(false);
  useEffect(() => void kept.set(http, state), [http, state]);

  return {
    ...state,
    problem,
    /** How far a comparison is; undefined while nothing is compared. */
    progress: isWorking ? progress : undefined,

    /** `delimiter`: as a person says; else it is recognised. */
    choose(file: File, delimiter?: string) {
      setState({});
      setProgress(undefined);
      run(async (signal) => {
        const head = await lookAtStatement(file, delimiter, signal);
        const columns = withoutRepeated(head);
        return { chosen: { file, head, reading: { columns, currency: currencyOfAmounts(head.format, columns) } } };
      }, setState);
    },

    /** A result of another reading is dropped, also one that is still computed. */
    assign(reading: Reading) {
      cancel();
      setState(({ chosen }) => ({ chosen: chosen && { ...chosen, reading: withCurrency(chosen, reading) } }));
    },

    compare(day: string, processor: string) {
      const { chosen } = state;
      if (!chosen) return;
      setState({ chosen });
      setProgress({ rows: 0, payments: 0 });
      const { file, head, reading } = chosen;
      const comparing = { file, format: head.format, reading, day, processor };
      run(async (signal) => {
        const compared = await compareStatement(http, comparing, setProgress, signal);
        return { chosen, compared: { day, processor, statement: file.name, ...compared } };
      }, setState);
    },

    cancel,
  };
}

/** The person says which one of several columns of one name is meant. */
function withoutRepeated({ columns, format }: StatementHead): Columns {
  const none = repeatedMembers(columns, format.names).map((member) => [member, undefined] as const);
  return { ...columns, ...Object.fromEntries(none) };
}

/** Another column of amounts may be of another currency. */
function withCurrency({ head, reading: before }: ChosenStatement, reading: Reading): Reading {
  if (reading.columns.amount === before.columns.amount) return reading;
  return { ...reading, currency: currencyOfAmounts(head.format, reading.columns) };
}
