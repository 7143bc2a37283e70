import type { Actor, Simulation } from './simulation.js';

/** As the caller has just sent it, or as the server has just done it and told nobody yet. */
export type Point = 'sent' | 'done';

/** A moment that is told by what happens, not by the time alone: at an operation on one subject, whoever asks for it. */
export interface Ambush {
  readonly subject: string;
  /** The n-th one, or the first one at or after a time. */
  readonly operation: number | { readonly notBefore: number };
  readonly point: Point;
  /** Only at one whose name begins so. */
  readonly only?: string | undefined;
}

/** What becomes of the message that comes next: it is lost, or late by some milliseconds. */
export type Mishap = 'lost' | number | undefined;

/** An operation, as it was asked for. */
interface Asked {
  readonly number: number;
  readonly name: string;
}

interface Planned extends Ambush {
  struck: boolean;
  readonly strike: (caller: Actor) => Mishap;
}

/** Trouble that waits between two steps of one attempt, where trouble by the clock would hardly ever come. */
export class Ambushes {
  private readonly planned = new Map<string, Planned[]>();
  private readonly operations = new Map<string, number>();

  constructor(private readonly simulation: Simulation) {}

  /** `strike` is given who asked for the operation. */
  lay(ambush: Ambush, strike: Planned['strike']): void {
    const others = this.planned.get(ambush.subject) ?? [];
    this.planned.set(ambush.subject, [...others, { ...ambush, struck: false, strike }]);
  }

  /** The number of the operation that begins now: from 1, on each subject. */
  begin(subject: string): number {
    if (!this.planned.has(subject)) return 0;
    const operation = (this.operations.get(subject) ?? 0) + 1;
    this.operations.set(subject, operation);
    return operation;
  }

  /** What becomes of the message that comes next. */
  strikeAt(point: Point, subject: string, operation: Asked, caller: Actor): Mishap {
    if (operation.number === 0) return undefined;
    let mishap: Mishap;
    for (const ambush of this.planned.get(subject) ?? []) {
      if (ambush.struck || ambush.point !== point || !this.isDue(ambush, operation)) continue;
      ambush.struck = true;
      mishap = ambush.strike(caller) ?? mishap;
    }
    return mishap;
  }

  private isDue({ operation: due, only }: Ambush, { number, name }: Asked): boolean {
    if (only !== undefined && !name.startsWith(only)) return false;
    return typeof due === 'number' ? due === number : this.simulation.time >= due.notBefore;
  }
}
