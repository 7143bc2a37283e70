import { printDone } from '#idempay/cli/output/results.js';
import { UsageError } from '#idempay/cli/usage.js';
import { readConfig } from '../../config.js';
import { pageAt } from '../../platform/manual.js';
import type { Environment } from '../../platform/settings.js';
import { backUp } from '../../stores/embedded/file/backup.js';

const MEGABYTE = 1_000_000;

/** `idempay backup FILE`. Throws UsageError and ConfigError if the arguments or settings are wrong, CannotOpen if it fails. */
export async function backup(file: string, environment: Environment): Promise<void> {
  const { deployment } = readConfig(environment);
  if (deployment.kind !== 'embedded') {
    throw new UsageError(
      `This is the distributed deployment: back PostgreSQL up with its own tools (${pageAt('docs/operations/deployment.md')}, "Backup and restore").`,
    );
  }
  await backUp(deployment.dataDir, file, (copied, about) =>
    console.error(`${megabytes(copied)} of about ${megabytes(about)} MB`),
  );
  await printDone([`${file} is complete.`]);
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(1);
}
