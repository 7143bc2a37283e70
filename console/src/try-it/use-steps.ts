import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import type { PaymentName, Step } from './steps.js';

/** By session, so that the steps are still there after a look at a timeline, and gone after a sign-out. */
const KEPT = new WeakMap<Http, readonly Step[]>();

/** The steps that were tried in this tab, the latest first. */
export function useSteps(http: Http) {
  const [steps, setSteps] = useState(KEPT.get(http) ?? []);

  function keep(change: (before: readonly Step[]) => readonly Step[]): void {
    const after = change(KEPT.get(http) ?? []);
    KEPT.set(http, after);
    setSteps(after);
  }

  return {
    steps,
    /** Adds a step, and returns how to change it. */
    begin(title: string, about: PaymentName | undefined): (change: Partial<Step>) => void {
      const number = (KEPT.get(http)?.[0]?.number ?? 0) + 1;
      const key = about && 'key' in about ? about.key : undefined;
      keep((before) => [{ number, title, about, key, exchange: undefined }, ...before]);
      return (change) =>
        keep((before) => before.map((step) => (step.number === number ? { ...step, ...change } : step)));
    },
    clear: () => keep(() => []),
  };
}
