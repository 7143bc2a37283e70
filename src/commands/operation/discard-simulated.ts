import { confirm } from '#idempay/cli/output/confirmation.js';
import { readConfig } from '../../config.js';
import type { Environment } from '../../platform/settings.js';

/**
 * `idempay simulated discard`. Throws UsageError if nobody agreed, ConfigError if the settings are wrong, CannotOpen if the store cannot be
 * used, or has payments that were made at a processor.
 */
export async function discardSimulated(environment: Environment, options: { readonly yes?: true | undefined }) {
  const { deployment } = readConfig(environment);
  const place = deployment.kind === 'embedded' ? `DATA_DIR ${deployment.dataDir}` : 'the database of DATABASE_URL';
  await confirm(`remove all simulated payments and all keys in ${place}`, options);
  const isDone = await discardOf(deployment);
  console.log(
    isDone
      ? `All simulated payments and all keys in ${place} were removed, and the transactions were kept. Orders are paid anew there.`
      : `There are no simulated payments in ${place}, and nothing was removed.`,
  );
}

async function discardOf(deployment: ReturnType<typeof readConfig>['deployment']): Promise<boolean> {
  switch (deployment.kind) {
    case 'embedded': {
      const { discardSimulatedPayments } = await import('../../stores/embedded/payments/discard-simulated.js');
      return discardSimulatedPayments(deployment.dataDir);
    }
    case 'distributed': {
      const { discardSimulatedPayments } = await import('../../stores/postgres/payments/discard-simulated.js');
      return discardSimulatedPayments(deployment.databaseUrl);
    }
  }
}
