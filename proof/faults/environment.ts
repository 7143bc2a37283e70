import type { Forgets } from '../../testkit/history/disturbances.js';
import type { History } from '../../testkit/history/history.js';
import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { TriggeredFaults } from './triggered-faults.js';

/** What a fault hits; the totals of a run are counted by it. */
export type Hit = 'service' | 'processor' | 'redis' | 'postgres' | 'disk';

/** One thing that can happen. */
export interface Fault {
  readonly name: string;
  readonly hits: Hit;
  /** How often it is chosen, against the others. */
  readonly weight: number;
  /** Resolves when it is over and what it took away is back, or is starting. */
  happen(random: Random): Promise<void>;
}

/** Everything that runs, and what can happen to it. */
export interface Environment {
  readonly services: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  /** Whether the processor recognises a reference that comes again; where it does not, an operator is at work. */
  readonly deduplicates: boolean;
  readonly faults: readonly Fault[];
  /** Faults of the deployment that this machine does not allow, and why. */
  readonly impossible: readonly string[];
  /** Resolves when nothing is in the way any more. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** Of an environment, besides its deployment. */
export interface EnvironmentOptions {
  readonly deduplicates: boolean;
  /** Embedded only: on a disk that can be filled up. */
  readonly onSmallDisk: boolean;
  readonly history: History;
  readonly triggered: TriggeredFaults;
  /** `crashPoint`: it ended itself there. */
  readonly onKilled: (what: Exclude<Hit, 'disk'>, crashPoint?: string) => void;
  /** Something happened that no fault explains. */
  readonly onOwnEnd: (sentence: string) => void;
}

export const LEASE_SECONDS = 2;
export const LEASE_MS = LEASE_SECONDS * 1_000;
export const PROCESSOR_TIMEOUT_MS = 600;
/** As recovery does (`src/payments/recovery.ts`). */
export const RECOVERY_PERIOD_MS = 3_000;

/** The service is told what it may rely on, as `docs/processor.md` asks. */
export function settingsFor({ deduplicates }: EnvironmentOptions): Readonly<Record<string, string>> {
  return {
    // Nothing is so old; but what removes old payments runs beside everything else.
    PAYMENT_RETENTION_DAYS: '1',
    LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
    PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
    // Every refused request would else cost a line with its stack.
    LOG_LEVEL: 'fatal',
    ...(!deduplicates && { PROCESSOR_DEDUP_SECONDS: '0' }),
  };
}

/** A fault that disturbs what it hits for as long as its work takes. */
export function disturbing(
  { history, onKilled }: Pick<EnvironmentOptions, 'history' | 'onKilled'>,
  fault: Omit<Fault, 'happen'> & { readonly kills?: true; readonly forgets?: Forgets },
  work: (random: Random) => Promise<unknown>,
): Fault {
  const { name, hits, weight, kills, forgets } = fault;
  const happen = async (random: Random) => {
    await history.disturbances.during(hits, () => work(random), forgets);
    if (kills) onKilled(hits as Exclude<Hit, 'disk'>);
  };
  return { name, hits, weight, happen };
}

/** What has been opened and must be closed, the last one first, however far the opening came. */
export class Opened {
  readonly #closing: (() => Promise<unknown>)[] = [];

  async keep<T extends { close(): Promise<unknown> }>(opening: Promise<T> | T): Promise<T> {
    const opened = await opening;
    this.#closing.push(() => opened.close());
    return opened;
  }

  async close(): Promise<void> {
    for (const close of this.#closing.splice(0).reverse()) await close();
  }
}
