import type { Forgets } from '../../testkit/history/disturbances.js';
import type { History } from '../../testkit/history/history.js';
import type { Random } from '../../testkit/random.js';
import type { CrashPoints } from './fault-order.js';

/** The target of a fault; the totals of a run are counted by it. */
export type Hit = 'service' | 'processor' | 'redis' | 'postgres' | 'disk';

/** One thing that can happen. */
export interface Fault {
  readonly name: string;
  readonly hits: Hit;
  /** How often it is chosen, against the others. */
  readonly weight: number;
  /** Resolves when it is over and the part that it took down is back, or is starting. */
  happen(random: Random): Promise<void>;
}

/** The options of an environment, besides its deployment. */
export interface EnvironmentOptions {
  /** True if the processor recognises a reference that comes again; if it does not, an operator is at work. */
  readonly deduplicates: boolean;
  /** Embedded only: on a disk that can be filled up. */
  readonly onSmallDisk: boolean;
  readonly history: History;
  readonly crashPoints: CrashPoints;
  /** `crashPoint`: it ended itself there. */
  readonly onKilled: (what: Hit, crashPoint?: string) => void;
  /** Something happened that no fault explains. */
  readonly onOwnEnd: (sentence: string) => void;
}

export const LEASE_SECONDS = 2;
export const LEASE_MS = LEASE_SECONDS * 1_000;
export const PROCESSOR_TIMEOUT_MS = 600;

interface FaultWork {
  readonly weight?: number;
  readonly kills?: true;
  readonly forgets?: Forgets;
  /** Before it begins. */
  readonly first?: () => Promise<void>;
  readonly work: (random: Random) => unknown;
}
/** By the names of the faults. */
export type FaultWorks = Readonly<Record<string, FaultWork>>;

/** Each disturbs what it hits for as long as its work takes. */
export function disturbing(hits: Hit, works: FaultWorks, { history, onKilled }: EnvironmentOptions): Fault[] {
  return Object.entries(works).map(([name, { weight = 1, kills, forgets, first, work }]) => ({
    name,
    hits,
    weight,
    async happen(random) {
      await first?.();
      // A service notes by itself while it is down.
      if (hits === 'service') await work(random);
      else await history.disturbances.during(hits, () => work(random), forgets);
      if (kills) onKilled(hits);
    },
  }));
}
