import { UsageError } from '#idempay/cli/usage.js';
import { readConfig } from '../../config.js';
import type { Environment } from '../../platform/settings.js';
import { markFolderAsRestored } from '../../stores/embedded/file/adoption.js';

/**
 * `idempay restored`: says that the stores were set back, if they cannot tell by themselves. Throws ConfigError if the settings are wrong,
 * CannotOpen if it fails.
 */
export async function restored(environment: Environment): Promise<void> {
  const { deployment } = readConfig(environment);
  if (deployment.kind !== 'embedded') {
    throw new UsageError(
      'This is the distributed deployment: its processes notice a restored PostgreSQL by themselves.',
    );
  }
  markFolderAsRestored(deployment.dataDir);
  console.log(
    `The next start on ${deployment.dataDir} treats what was written after the restored state as lost: it looks older payments up before it charges them, and leaves a gap in the transaction ids.`,
  );
}
