import type { Health } from './health.js';

export type PartState = 'up' | 'away';

/** The parts that the process needs, each in its state at this moment. Without the store of record nothing can be paid. */
export interface PartStates {
  readonly storeOfRecord: PartState;
  /** `full`: keys without a reference are refused (rule A6). */
  readonly keyValueStore: PartState | 'full';
  readonly processor: PartState;
}

/** The answer to a load balancer: send requests here, or not (rule O1). */
export interface Readiness {
  readonly isDraining: boolean;
  /** At once and for ever: the process will end. */
  startDraining(): void;
  /** Answers within a second. Concurrent calls share one look. */
  look(): Promise<PartStates>;
}

export function createReadiness(
  health: Pick<Health, 'status' | 'storeOfRecordAnswers'>,
  processor: { readonly isDown: boolean },
  unpaidKeys: { readonly isRefusing: boolean },
): Readiness {
  let isDraining = false;
  let looking: Promise<PartStates> | undefined;

  async function look(): Promise<PartStates> {
    try {
      const [recordAnswers, keyValueStore] = await Promise.all([health.storeOfRecordAnswers(), health.status()]);
      return {
        storeOfRecord: recordAnswers ? 'up' : 'away',
        keyValueStore: !keyValueStore ? 'away' : unpaidKeys.isRefusing ? 'full' : 'up',
        processor: processor.isDown ? 'away' : 'up',
      };
    } finally {
      looking = undefined;
    }
  }

  return {
    get isDraining() {
      return isDraining;
    },
    startDraining() {
      isDraining = true;
    },
    look() {
      looking ??= look();
      return looking;
    },
  };
}
