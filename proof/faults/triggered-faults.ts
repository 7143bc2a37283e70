import { CRASH_POINTS } from '#idempay/crash-points.js';
import type { Random } from '../../testkit/random.js';

/** A crash point on a busy step lies up to so many steps ahead. */
const MOST_STEPS = 30;
/** Steps that only some payments take: a crash there must not wait for many. */
const RARE = ['take-over', 'renew', 'abandon', 'look-up', 'release', 'evict', 'remove', 'resolve'];

/** Draws the points at which processes are to end themselves: those first at which the fewest have ended. */
export class TriggeredFaults {
  readonly #drawn = new Map<string, number>();

  /** `reached`: how often a process has ended at each point. */
  constructor(private readonly reached: Readonly<Record<string, number>>) {}

  /** Only an operator resolves payments. */
  next(random: Random, hasOperator: boolean): string {
    const points = hasOperator ? CRASH_POINTS : CRASH_POINTS.filter((point) => !point.endsWith('-resolve'));
    // A point that was drawn in vain must not keep the others waiting.
    const turns = (point: string) => (this.reached[point] ?? 0) + (this.#drawn.get(point) ?? 0) / 2;
    const fewest = Math.min(...points.map(turns));
    const point = random.pick(points.filter((each) => turns(each) === fewest));
    this.#drawn.set(point, (this.#drawn.get(point) ?? 0) + 1);
    const isRare = RARE.some((step) => point.includes(step));
    return `${point}:${1 + random.below(isRare ? 2 : MOST_STEPS)}`;
  }
}
