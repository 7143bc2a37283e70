import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';

/** What a blow hits; the totals of a run are counted by it. */
export type Hit = 'service' | 'processor' | 'redis' | 'postgres' | 'disk';

/** One thing that can happen. */
export interface Blow {
  readonly name: string;
  readonly hits: Hit;
  /** How often it is chosen, against the others. */
  readonly weight: number;
  /** Resolves when it is over and what it took away is back, or is on its way up. */
  strike(random: Random): Promise<void>;
}

/** Everything that runs, and what can be done to it. */
export interface Scene {
  readonly services: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  /** Whether the processor recognises a reference that comes again; where it does not, an operator is at work. */
  readonly deduplicates: boolean;
  readonly blows: readonly Blow[];
  /** Blows of the deployment that this machine does not allow, and why. */
  readonly impossible: readonly string[];
  /** Nothing is in anybody's way any more when this resolves. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

export interface Disturbance {
  ended(): void;
}

/** What the scene tells while blows fall. */
export interface SceneEvents {
  /** `crashPoint`: it ended itself there. */
  killed(what: 'service' | 'processor' | 'redis' | 'postgres', crashPoint?: string): void;
  /** Something is being stopped, cut or killed until `ended`: a lock may stay behind for a lease. */
  disturbing(): Disturbance;
  /** The same, and the key store may lose what it held meanwhile, or go back in time. */
  forgetting(): Disturbance;
  /** How often a process has ended at each crash point. */
  reached(): Readonly<Record<string, number>>;
  /** Something happened that no blow explains. */
  failed(sentence: string): void;
}

export const LEASE_SECONDS = 2;
export const LEASE_MS = LEASE_SECONDS * 1_000;
export const PROCESSOR_TIMEOUT_MS = 600;
/** As recovery does (`src/payments/recovery.ts`). */
export const RECOVERY_PERIOD_MS = 3_000;

/** Of a scene, besides its deployment. */
export interface SceneOptions {
  readonly deduplicates: boolean;
}

/** The service is told what it may rely on, as `docs/processor.md` asks. */
export function settingsFor({ deduplicates }: SceneOptions): Readonly<Record<string, string>> {
  return deduplicates ? SERVICE_SETTINGS : { ...SERVICE_SETTINGS, PROCESSOR_DEDUP_SECONDS: '0' };
}

const SERVICE_SETTINGS = {
  // Nothing is so old; but what removes old payments runs beside everything else.
  PAYMENT_RETENTION_DAYS: '1',
  LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
  PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
  // Every refused request would else cost a line with its stack.
  LOG_LEVEL: 'fatal',
};
