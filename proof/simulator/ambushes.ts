import type { Actor } from './simulation.js';

/** As the caller has just sent it, or as the server has just done it and told nobody yet. */
export type Point = 'sent' | 'done';

/** A moment that is told by what happens, not by the time: the n-th operation on one subject, whoever asks for it. */
export interface Ambush {
  readonly subject: string;
  readonly operation: number;
  readonly point: Point;
}

interface Planned extends Ambush {
  readonly strike: (caller: Actor) => 'cut' | undefined;
}

/** Trouble that waits between two steps of one attempt, where trouble by the clock would hardly ever come. */
export class Ambushes {
  private readonly planned = new Map<string, Planned[]>();
  private readonly operations = new Map<string, number>();

  /** `strike` is given who asked for the operation; 'cut' loses the message that comes next. */
  lay(ambush: Ambush, strike: Planned['strike']): void {
    const others = this.planned.get(ambush.subject) ?? [];
    this.planned.set(ambush.subject, [...others, { ...ambush, strike }]);
  }

  /** The number of the operation that begins now: from 1, on each subject. */
  begin(subject: string): number {
    if (!this.planned.has(subject)) return 0;
    const operation = (this.operations.get(subject) ?? 0) + 1;
    this.operations.set(subject, operation);
    return operation;
  }

  /** Whether the message that comes next is lost. */
  strikesAt(point: Point, subject: string, operation: number, caller: Actor): boolean {
    if (operation === 0) return false;
    let cut = false;
    for (const ambush of this.planned.get(subject) ?? []) {
      if (ambush.operation !== operation || ambush.point !== point) continue;
      if (ambush.strike(caller) === 'cut') cut = true;
    }
    return cut;
  }
}
