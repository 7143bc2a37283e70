import { CRASH_POINTS } from '../../testkit/processes/crash-points.js';
import type { Random } from '../../testkit/random.js';
import type { Fault, Hit } from './fault.js';

/** The targets of one cycle: processes and stores in turn, so that a short run meets both. */
const PROCESSES: readonly Hit[] = ['service', 'service', 'service', 'service', 'processor'];
/** A full disk is as rare as it is long. */
const STORES: readonly Hit[] = ['redis', 'redis', 'redis', 'postgres', 'postgres', 'disk', 'disk'];
/** A crash point on a busy step lies up to this number of steps ahead. */
const MOST_STEPS = 30;
/** Steps that only some payments take: a crash there must not wait for many. */
const RARE = ['take-over', 'renew', 'abandon', 'look-up', 'release', 'evict', 'remove', 'resolve', 'cancel', 'forget'];

/** The order in which faults happen: random, but none twice before all others of its kind had their turns. */
export function* faultOrder(faults: readonly Fault[], random: Random): Generator<Fault, never> {
  if (faults.length === 0) throw new Error('no fault can happen here');
  const left = new Map<Hit, Fault[]>();
  const draw = <T>(items: T[]) => items.splice(random.below(items.length), 1)[0] as T;
  const possible = (hits: readonly Hit[]) => hits.filter((hit) => faults.some((fault) => fault.hits === hit));
  for (;;) {
    const cycle = [possible(PROCESSES), possible(STORES)];
    while (cycle.some((hits) => hits.length > 0)) {
      for (const hits of cycle.filter(({ length }) => length > 0)) {
        const hit = draw(hits);
        if (!left.get(hit)?.length) {
          const ofKind = faults.filter((fault) => fault.hits === hit);
          left.set(
            hit,
            ofKind.flatMap((fault) => Array<Fault>(fault.weight).fill(fault)),
          );
        }
        yield draw(left.get(hit) as Fault[]);
      }
    }
  }
}

/** Draws the points at which processes are to end themselves: those first at which the fewest have ended. */
export class CrashPoints {
  readonly #drawn = new Map<string, number>();

  /** `reached`: how often a process has ended at each point. */
  constructor(private readonly reached: Readonly<Record<string, number>>) {}

  /** Only an operator resolves payments. */
  next(random: Random, hasOperator: boolean): string {
    const points = hasOperator ? CRASH_POINTS : CRASH_POINTS.filter((point) => !point.endsWith('-resolve'));
    // A point that was drawn but not reached must not be drawn again before the others.
    const turns = (point: string) => (this.reached[point] ?? 0) + (this.#drawn.get(point) ?? 0) / 2;
    const fewest = Math.min(...points.map(turns));
    const point = random.pick(points.filter((each) => turns(each) === fewest));
    this.#drawn.set(point, (this.#drawn.get(point) ?? 0) + 1);
    const isRare = RARE.some((step) => point.includes(step));
    return `${point}:${1 + random.below(isRare ? 2 : MOST_STEPS)}`;
  }
}
