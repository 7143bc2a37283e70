import { parseArgs } from 'node:util';
import { isClientName, isExpiry } from '../access/api-keys.js';
import { addApiKey, apiKeysIn, revokeApiKeys } from '../access/key-file-edits.js';
import { isScope, SCOPES, type Scope } from '../access/scopes.js';
import { UsageError } from './usage.js';

export const KEYS_USAGE = `
  keys add NAME --scopes a,b     writes an API key of the client NAME, and prints its secret once
       [--expires-at TIME]       ISO 8601, such as 2027-01-01T00:00:00Z
  keys list                      shows the keys, without their secrets
  keys revoke NAME [--id ID]     removes all keys of the client, or the one with this id

  The file is API_KEYS_FILE, or --file PATH. Scopes: ${SCOPES.join(', ')}.`;

/** Enough of a hash to name one key among thousands. */
const ID_LENGTH = 12;

/** `idempay keys ...` (decisions A2). Throws UsageError where the arguments are wrong, and KeyFileError where the file is. */
export function keysCommand(
  parameters: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): void {
  const { positionals, values } = parseArgs({
    args: [...parameters],
    allowPositionals: true,
    options: {
      file: { type: 'string', default: environment.API_KEYS_FILE },
      scopes: { type: 'string' },
      'expires-at': { type: 'string' },
      id: { type: 'string' },
    },
  });
  const [action, name, ...more] = positionals;
  const { file, scopes, id } = values;
  if (!file) throw new UsageError('Say which file: set API_KEYS_FILE, or add --file PATH.');
  if (more.length > 0) throw new UsageError(`'${more[0]}' is one argument too many.`);
  switch (action) {
    case 'add':
      console.log(addApiKey(file, readName(name), readScopes(scopes), readExpiry(values['expires-at'])));
      console.error('This is the secret. It is shown this once: only its hash is kept.');
      return;
    case 'list':
      console.table(
        apiKeysIn(file).map((key) => ({
          client: key.name,
          id: key.sha256.slice(0, ID_LENGTH),
          scopes: key.scopes.join(','),
          expires: key.expiresAt ?? 'never',
        })),
      );
      return;
    case 'revoke': {
      const revoked = revokeApiKeys(file, readName(name), id);
      if (revoked === 0) throw new UsageError(`There is no such key. 'keys list' shows those there are.`);
      console.log(`${revoked} revoked: every process that reads the file refuses them within two seconds.`);
      return;
    }
    default:
      throw new UsageError(
        action === undefined ? 'Say what to do with the keys.' : `'${action}' is nothing to do with keys.`,
      );
  }
}

function readName(name: string | undefined): string {
  if (name !== undefined && isClientName(name)) return name;
  throw new UsageError('Name the client: 1 to 64 letters, digits and . _ -');
}

function readScopes(text: string | undefined): readonly Scope[] {
  const names = (text ?? '').split(',').map((name) => name.trim());
  const scopes = names.filter(isScope);
  if (scopes.length === names.length) return [...new Set(scopes)];
  throw new UsageError(`--scopes takes one or more of ${SCOPES.join(', ')}, with commas between them.`);
}

function readExpiry(text: string | undefined): string | undefined {
  if (text === undefined || isExpiry(text)) return text;
  throw new UsageError('--expires-at takes a time such as 2027-01-01T00:00:00Z.');
}
