import type { Violation } from '../../testkit/checkers/payment-evidence.js';
import type { ClientLog } from '../../testkit/history/client-log.js';
import { seededRandom } from '../../testkit/random.js';
import { openDistributedScene } from './distributed-scene.js';
import { openEmbeddedScene } from './embedded-scene.js';
import type { Scene, SceneEvents, SceneOptions } from './scene.js';
import { runSession } from './session.js';
import { emptyTally, type Tally } from './tally.js';
import { Traps } from './traps.js';

export const DEPLOYMENTS = ['embedded', 'distributed'] as const;
export type DeploymentName = (typeof DEPLOYMENTS)[number];

/** Of one session, opening, healing and judging it included; with fresh stores, so that nothing grows with the run. */
const LONGEST_SESSION_MS = 100_000;
/** What opening, healing and judging take of a session. */
const AROUND_MS = { embedded: 6_000, distributed: 12_000 } as const;
/** What the last payments of an operator take. */
const OPERATOR_MS = 10_000;
const SHORTEST_BLOWS_MS = 8_000;

export interface RunOptions {
  readonly deployment: DeploymentName;
  readonly totalMs: number;
  readonly seed: number;
  readonly stop: AbortSignal;
  /** Ends the run before its time, asked before each fault. */
  readonly isEnough?: (tally: Tally) => boolean;
  /** Of an interrupted run that is gone on with. */
  readonly tally?: Tally;
  /** Now and then, with what the session under way has so far. */
  readonly onProgress?: (tally: Tally, log: ClientLog) => void;
  /** After each session. */
  readonly onSession?: (tally: Tally, violations: readonly Violation[]) => void;
}

/** Sessions one after the other until the time is over, somebody stops the run, or a promise was broken. */
export async function runFaults(options: RunOptions): Promise<{ tally: Tally; violations: readonly Violation[] }> {
  const { deployment, totalMs, seed, stop, isEnough = () => false } = options;
  const tally = options.tally ?? emptyTally();
  const traps = new Traps();
  let violations: readonly Violation[] = [];
  do {
    // Each session has its own stream, so that a run that is gone on with makes the choices it would have made.
    const random = seededRandom(seed + tally.sessions);
    const ordinal = tally.sessions;
    // Every processor twice in a row, on either disk; which comes first, the seed says.
    const deduplicates = (seed + Math.floor(ordinal / 2)) % 2 === 0;
    const aroundMs = AROUND_MS[deployment] + (deduplicates ? 0 : OPERATOR_MS);
    const leftMs = Math.min(totalMs - tally.elapsedMs, LONGEST_SESSION_MS);
    ({ violations } = await runSession({
      open: (events) => openScene(deployment, traps, events, { deduplicates, onSmallDisk: ordinal % 2 === 0 }),
      random,
      blowsMs: Math.max(leftMs - aroundMs, SHORTEST_BLOWS_MS),
      isOver: () => stop.aborted || isEnough(tally),
      tally,
      onProgress: (log) => options.onProgress?.(tally, log),
    }));
    options.onSession?.(tally, violations);
  } while (
    violations.length === 0 &&
    !stop.aborted &&
    !isEnough(tally) &&
    totalMs - tally.elapsedMs > SHORTEST_BLOWS_MS
  );
  return { tally, violations };
}

/** On the embedded deployment every other session is on a disk that can be full, the others on the machine's own. */
function openScene(
  deployment: DeploymentName,
  traps: Traps,
  events: SceneEvents,
  options: SceneOptions & { readonly onSmallDisk: boolean },
): Promise<Scene> {
  return deployment === 'embedded'
    ? openEmbeddedScene(traps, events, options)
    : openDistributedScene(traps, events, options);
}
