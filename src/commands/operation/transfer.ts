import { duration } from '#idempay/cli/output/duration.js';
import { printDone } from '#idempay/cli/output/results.js';
import { UsageError } from '#idempay/cli/usage.js';
import { readDataDir, readTransferEnds } from '../../config.js';
import { type Environment, Settings } from '../../platform/settings.js';
import { cancelTransfer, cancelWithoutTarget, transfer } from '../../stores/transfer.js';
import { openProgressLine } from '../progress-line.js';

interface TransferOptions {
  readonly cancel?: true | undefined;
  readonly targetIsGone?: true | undefined;
}

const SECOND_MS = 1_000;
const warn = (sentence: string) => console.error(sentence);

/**
 * `idempay transfer`, and with `cancel` the way back. The first run and every run after a crash are the same command. Throws UsageError and
 * ConfigError if the arguments or settings are wrong, CannotOpen if it fails.
 */
export async function transferDeployment(
  environment: Environment,
  { cancel, targetIsGone }: TransferOptions,
): Promise<void> {
  if (targetIsGone && !cancel) throw new UsageError('--target-is-gone needs --cancel.');
  if (!cancel) return copyDeployment(environment);
  const dataDir = targetIsGone ? readDataDir(new Settings(environment, [])) : await cancelAtTarget(environment);
  if (targetIsGone) cancelWithoutTarget(dataDir);
  await printDone([
    `The transfer was given up, and ${dataDir} is free: its next start treats it as a restored copy. It looks older payments up before it charges them, and leaves a gap in the transaction ids.`,
  ]);
}

async function cancelAtTarget(environment: Environment): Promise<string> {
  const ends = readTransferEnds(environment);
  await cancelTransfer(ends, { warn });
  return ends.dataDir;
}

async function copyDeployment(environment: Environment): Promise<void> {
  const ends = readTransferEnds(environment);
  const line = openProgressLine();
  const startedAt = performance.now();
  const copied = (count: number, of: number) => {
    const seconds = (performance.now() - startedAt) / SECOND_MS;
    const left = count > 0 ? duration((seconds * (of - count)) / count) : '?';
    line.show(() => `${Math.floor((100 * count) / Math.max(1, of))}% · ${count} of ${of} rows · ${left} left`);
  };
  const result = await transfer(ends, { warn, copied }).finally(() => line.clear());
  if (result.state === 'started before') {
    await printDone([`${ends.dataDir} was moved before, and a service has started on REDIS_URL and DATABASE_URL.`]);
    return;
  }
  const { payments, transactions } = result;
  await printDone([
    `${payments} payments and refunds and ${transactions} transactions were copied and compared. Start the services with REDIS_URL and DATABASE_URL. Keep ${ends.dataDir} until they have started; no service starts on it any more.`,
  ]);
}
