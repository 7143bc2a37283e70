import type { Random } from '../../testkit/random.js';
import type { Fault, Hit } from './environment.js';

/** What one cycle hits: processes and stores in turn, so that a short run meets both. */
const PROCESSES: readonly Hit[] = ['service', 'service', 'service', 'service', 'processor'];
const STORES: readonly Hit[] = ['redis', 'redis', 'redis', 'postgres', 'postgres'];
/** A full disk is as rare as it is long. */
const DISK: readonly Hit[] = ['disk', 'disk'];

/** The order in which faults happen: random, but none twice before all others of its kind had their turns. */
export class FaultOrder {
  #cycle: Hit[] = [];
  readonly #left = new Map<Hit, Fault[]>();

  constructor(
    private readonly faults: readonly Fault[],
    private readonly random: Random,
  ) {}

  next(): Fault {
    if (this.#cycle.length === 0) this.#cycle = this.#newCycle();
    const hit = this.#cycle.shift() as Hit;
    let left = this.#left.get(hit) ?? [];
    if (left.length === 0) {
      left = this.faults.filter(({ hits }) => hits === hit).flatMap((fault) => Array<Fault>(fault.weight).fill(fault));
      this.#left.set(hit, left);
    }
    return left.splice(this.random.below(left.length), 1)[0] as Fault;
  }

  #newCycle(): Hit[] {
    const [processes, stores] = [this.#shuffled(PROCESSES), this.#shuffled([...STORES, ...DISK])];
    const cycle: Hit[] = [];
    while (processes.length + stores.length > 0) cycle.push(...processes.splice(0, 1), ...stores.splice(0, 1));
    return cycle;
  }

  /** Of what can be hit here. */
  #shuffled(hits: readonly Hit[]): Hit[] {
    const left = hits.filter((hit) => this.faults.some((fault) => fault.hits === hit));
    const shuffled: Hit[] = [];
    while (left.length > 0) shuffled.push(...left.splice(this.random.below(left.length), 1));
    return shuffled;
  }
}
