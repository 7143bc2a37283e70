import type { Clients } from '../../testkit/client/load.js';
import { History, type Violation } from '../../testkit/history/history.js';
import { seededRandom } from '../../testkit/random.js';
import { openDistributed } from './distributed-environment.js';
import { openEmbedded } from './embedded-environment.js';
import { type Environment, type EnvironmentOptions, type Fault, Opened } from './environment.js';
import { runSession } from './session.js';
import { emptyTally, type Tally } from './tally.js';
import { TriggeredFaults } from './triggered-faults.js';

const OPEN = { embedded: openEmbedded, distributed: openDistributed } as const;
export type DeploymentName = keyof typeof OPEN;
export const DEPLOYMENTS = Object.keys(OPEN) as DeploymentName[];

/** Of one session, opening, healing and checking it included; with fresh stores, so that nothing grows with the run. */
const LONGEST_SESSION_MS = 100_000;
/** What opening, healing and checking take of a session. */
const AROUND_MS = { embedded: 6_000, distributed: 12_000 } as const;
/** What the last payments of an operator take. */
const OPERATOR_MS = 10_000;
const SHORTEST_FAULTS_MS = 8_000;
const CLIENTS: Clients = { payments: 30, transactions: 10 };

export interface RunOptions {
  readonly deployment: DeploymentName;
  readonly totalMs: number;
  readonly seed: number;
  readonly stop: AbortSignal;
  /** Ends the run before its time, asked before each fault. */
  readonly isEnough?: (tally: Tally) => boolean;
  /** Which faults are chosen from. */
  readonly only?: (fault: Pick<Fault, 'name' | 'hits'>) => boolean;
  readonly clients?: Clients;
  /** Of an interrupted run that is gone on with. */
  readonly tally?: Tally;
  readonly onProgress?: () => void;
  readonly onSession?: () => void;
}

/** Sessions one after the other until the time is over, the run is stopped, or a promise was broken. */
export async function runFaults(options: RunOptions): Promise<{ tally: Tally; violations: readonly Violation[] }> {
  const { deployment, totalMs, seed, stop, isEnough = () => false, only = () => true, clients = CLIENTS } = options;
  const { tally = emptyTally(), onProgress = () => {}, onSession } = options;
  const triggered = new TriggeredFaults(tally.crashPoints);
  const isOver = () => stop.aborted || isEnough(tally);
  let violations: readonly Violation[] = [];
  do {
    // Each session has its own stream, so that a run that is gone on with makes the choices it would have made.
    const random = seededRandom(seed + tally.sessions);
    // Every processor twice in a row, on either disk; which comes first, the seed says.
    const deduplicates = (seed + Math.floor(tally.sessions / 2)) % 2 === 0;
    const onSmallDisk = tally.sessions % 2 === 0 && only({ name: 'the disk full', hits: 'disk' });
    const history = new History();
    const aroundMs = AROUND_MS[deployment] + (deduplicates ? 0 : OPERATOR_MS);
    const leftMs = Math.min(totalMs - tally.elapsedMs, LONGEST_SESSION_MS);
    const onKilled: EnvironmentOptions['onKilled'] = (what, crashPoint) => {
      tally.sigkills[what] += 1;
      if (crashPoint) tally.crashPoints[crashPoint] = (tally.crashPoints[crashPoint] ?? 0) + 1;
    };
    violations = await runSession({
      history,
      open: (onOwnEnd) =>
        openEnvironment(deployment, { deduplicates, onSmallDisk, history, triggered, onKilled, onOwnEnd }),
      random,
      faultsMs: Math.max(leftMs - aroundMs, SHORTEST_FAULTS_MS),
      isOver,
      only,
      clients,
      tally,
      onProgress,
    });
    onSession?.();
  } while (violations.length === 0 && !isOver() && totalMs - tally.elapsedMs > SHORTEST_FAULTS_MS);
  return { tally, violations };
}

async function openEnvironment(deployment: DeploymentName, options: EnvironmentOptions): Promise<Environment> {
  const opened = new Opened();
  try {
    return await OPEN[deployment](opened, options);
  } catch (fault) {
    await opened.close();
    throw fault;
  }
}
