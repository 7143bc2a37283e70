import type { Process, Simulation } from './simulation.js';

/** A fault at a step: at an operation on one subject, whichever process asks for it. */
export interface Trigger<Subject> {
  readonly subject: Subject;
  /** The n-th one, or the first one at or after a time. */
  readonly operation: number | { readonly notBefore: number };
  /** When its caller has just sent it, or the server has just done it and its reply is not sent yet. */
  readonly point: 'sent' | 'done';
  /** Only at an operation whose name begins so. */
  readonly only?: string | undefined;
}

/** What becomes of the next message: it is lost, or late by some milliseconds. */
export type MessageFault = 'lost' | number | undefined;

/** An operation as it was asked for, with its number on each subject: from 1. */
interface Operation {
  readonly name: string;
  readonly numbers: ReadonlyMap<string, number>;
}

interface Planned extends Trigger<string> {
  done: boolean;
  readonly inject: (caller: Process) => MessageFault;
}

/** Faults between two steps of one attempt, where faults by the clock would hardly ever come. */
export class TriggeredFaults {
  private readonly planned = new Map<string, Planned[]>();
  private readonly counted = new Map<string, number>();

  constructor(private readonly simulation: Simulation) {}

  /** `inject` is given the process that asked for the operation. */
  plan(trigger: Trigger<string>, inject: Planned['inject']): void {
    const others = this.planned.get(trigger.subject) ?? [];
    this.planned.set(trigger.subject, [...others, { ...trigger, done: false, inject }]);
  }

  begin(name: string, subjects: readonly string[]): Operation {
    const numbers = new Map<string, number>();
    for (const subject of new Set(subjects)) {
      if (!this.planned.has(subject)) continue;
      const number = (this.counted.get(subject) ?? 0) + 1;
      this.counted.set(subject, number);
      numbers.set(subject, number);
    }
    return { name, numbers };
  }

  injectAt(point: Planned['point'], { name, numbers }: Operation, caller: Process): MessageFault {
    let fault: MessageFault;
    for (const [subject, number] of numbers) {
      for (const planned of this.planned.get(subject) ?? []) {
        const { operation: due, only = '' } = planned;
        const isDue = typeof due === 'number' ? due === number : this.simulation.time >= due.notBefore;
        if (planned.done || planned.point !== point || !isDue || !name.startsWith(only)) continue;
        planned.done = true;
        fault = planned.inject(caller) ?? fault;
      }
    }
    return fault;
  }
}
