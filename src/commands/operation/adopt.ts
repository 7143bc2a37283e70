import { confirm } from '#idempay/cli/output/confirmation.js';
import { UsageError } from '#idempay/cli/usage.js';
import { isClient } from '../../access/client-name.js';
import { apiKeysIn } from '../../access/key-file-edits.js';
import { readConfig } from '../../config.js';
import { NOBODY } from '../../payments/values/adoption.js';
import type { Environment } from '../../platform/settings.js';
import type { KeyFileOption } from './keys.js';

/**
 * `idempay adopt`. Throws UsageError if no client can have the name or nobody agreed, ConfigError if the settings are wrong, KeyFileError if
 * the file of API keys is, and CannotOpen, with nothing changed, if the store cannot be used or the client cannot adopt.
 */
export async function adopt(
  environment: Environment,
  client: string,
  options: KeyFileOption & { readonly yes?: true | undefined },
): Promise<void> {
  refuseOtherName(client, options);
  const { deployment } = readConfig(environment);
  const place = deployment.kind === 'embedded' ? `DATA_DIR ${deployment.dataDir}` : 'the database of DATABASE_URL';
  const action =
    client === NOBODY
      ? `leave the orders in ${place} that were paid without credentials to nobody, so that each of them can be paid again`
      : `give ${client} everything in ${place} that was written without credentials`;
  await confirm(action, options);
  const adopted = await adoptIn(deployment, client);
  console.log(wordsFor(client, adopted));
}

function wordsFor(client: string, adopted: number | undefined): string {
  if (adopted === undefined) return 'That was decided before, and nothing was changed.';
  if (client === NOBODY) return 'It was decided: with AUTH=required every order is a new one.';
  return `${client} goes on with the orders that were paid without credentials. Payments and refunds that it adopted: ${adopted}. Start every service with AUTH=required.`;
}

/** A wrong name would be for ever, so a name that is not in the file of API keys is refused if the file is known. */
function refuseOtherName(client: string, { file }: KeyFileOption): void {
  if (client === NOBODY) return;
  if (!isClient(client)) {
    throw new UsageError(`Name the client as records show it, such as key:shop or jwt:shop, or '${NOBODY}'.`);
  }
  if (!file || !client.startsWith('key:')) return;
  if (apiKeysIn(file).some(({ name }) => `key:${name}` === client)) return;
  throw new UsageError(`${file} has no API key of ${client}. Add one first: idempay keys add NAME.`);
}

async function adoptIn(deployment: ReturnType<typeof readConfig>['deployment'], client: string) {
  switch (deployment.kind) {
    case 'embedded': {
      const { adoptUnowned } = await import('../../stores/embedded/payments/adopt.js');
      return adoptUnowned(deployment.dataDir, client);
    }
    case 'distributed': {
      const { adoptUnowned } = await import('../../stores/postgres/payments/adopt.js');
      return adoptUnowned(deployment.databaseUrl, client);
    }
  }
}
