import type { Health } from './health.js';

export type PartState = 'up' | 'away';

/** The parts that the process needs, each in its state at this moment. */
export interface PartStates {
  readonly storeOfRecord: PartState;
  /** `full`: keys without a reference are refused (rule A6). */
  readonly keyValueStore: PartState | 'full';
  readonly processor: PartState;
}

export interface ReadinessLook {
  readonly parts: PartStates;
  /**
   * True if requests should come here. Without the store of record nothing new can be paid: requests belong to a process that has it. If
   * none has it, this one still repeats what was answered before.
   */
  readonly isReady: boolean;
}

/** The answer to a load balancer: send requests here, or not (rule O1). */
export interface Readiness {
  readonly isDraining: boolean;
  /** At once and for ever: the process will end. */
  startDraining(): void;
  /** Answers within a second. Concurrent calls share one look. */
  look(): Promise<ReadinessLook>;
}

export function createReadiness(
  health: Pick<Health, 'status' | 'storeOfRecordAnswers' | 'storeOfRecordIsReachedByAnother'>,
  processor: { readonly isDown: boolean },
  unpaidKeys: { readonly isRefusing: boolean },
): Readiness {
  let isDraining = false;
  let looking: Promise<ReadinessLook> | undefined;

  async function look(): Promise<ReadinessLook> {
    try {
      const recordAnswering = health.storeOfRecordAnswers();
      const [recordAnswers, keyValueStore, isReachedByAnother] = await Promise.all([
        recordAnswering,
        health.status(),
        recordAnswering.then((answers) => (answers ? undefined : health.storeOfRecordIsReachedByAnother())),
      ]);
      const parts: PartStates = {
        storeOfRecord: recordAnswers ? 'up' : 'away',
        keyValueStore: !keyValueStore ? 'away' : unpaidKeys.isRefusing ? 'full' : 'up',
        processor: processor.isDown ? 'away' : 'up',
      };
      return { parts, isReady: recordAnswers || (keyValueStore !== undefined && isReachedByAnother === false) };
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
