import { parentPort, workerData } from 'node:worker_threads';
import { type EnvironmentName, environmentOf, environmentOfSeed } from './environments.js';
import { runSeed } from './one-seed.js';

/** Some seeds to run, and then what came of them. */
export interface Chunk {
  readonly from: number;
  readonly seeds: number;
}

export interface ChunkResult {
  readonly seeds: number;
  readonly steps: number;
  readonly counts: readonly (readonly [string, number])[];
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly environment: EnvironmentName;
  readonly seed: number;
  readonly violations: readonly string[];
}

const only = (workerData as { environment: EnvironmentName | undefined }).environment;

async function runChunk({ from, seeds }: Chunk): Promise<ChunkResult> {
  let steps = 0;
  const counts = new Map<string, number>();
  const failures: Failure[] = [];
  for (let seed = from; seed < from + seeds; seed += 1) {
    const name = only ?? environmentOfSeed(seed);
    const { violations, ...result } = await runSeed(environmentOf(name), seed);
    steps += result.steps;
    for (const [what, times] of result.counts) {
      const counted = `${name}: ${what}`;
      counts.set(counted, (counts.get(counted) ?? 0) + times);
    }
    if (violations.length > 0) failures.push({ environment: name, seed, violations });
  }
  return { seeds, steps, counts: [...counts], failures };
}

parentPort?.on('message', (chunk: Chunk) => {
  runChunk(chunk).then(
    (result) => parentPort?.postMessage(result),
    (error: unknown) => {
      // Not as a rejection, which would be taken for one of a seed's.
      process.nextTick(() => {
        throw error;
      });
    },
  );
});
