import { parseArgs } from 'node:util';
import { DEPLOYMENTS, type DeploymentName } from './run.js';

const USUAL_MINUTES = 5;

export const USAGE = `npm run faults -- [options]
  --deployment embedded|distributed   what is put through it (embedded)
  --minutes M                         how long, at least 0.2 (${USUAL_MINUTES})
  --seed N                            makes the choices of an earlier run again
  --resume                            goes on with the interrupted run of this deployment, for its minutes and with its seed`;

export interface Options {
  readonly deployment: DeploymentName;
  readonly totalMs: number;
  readonly seed: number | undefined;
  readonly resume: boolean;
}

/** What the command line asks for. Throws a sentence for whoever typed it. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      deployment: { type: 'string', default: 'embedded' },
      minutes: { type: 'string' },
      seed: { type: 'string' },
      resume: { type: 'boolean', default: false },
    },
  });
  const deployment = DEPLOYMENTS.find((name) => name === values.deployment);
  if (!deployment) throw new Error(`--deployment is ${DEPLOYMENTS.join(' or ')}, not ${values.deployment}`);
  if (values.resume && (values.minutes ?? values.seed) !== undefined) {
    throw new Error('--resume goes on for the minutes and with the seed of the interrupted run: leave them out');
  }
  const minutes = Number(values.minutes ?? USUAL_MINUTES);
  if (!(minutes >= 0.2 && minutes <= 10_000)) throw new Error(`--minutes is a number from 0.2, not ${values.minutes}`);
  const seed = values.seed === undefined ? undefined : Number(values.seed);
  if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
    throw new Error(`--seed is a whole number, not ${values.seed}`);
  }
  return { deployment, totalMs: minutes * 60_000, seed, resume: values.resume };
}
