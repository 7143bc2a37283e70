import { type OutputOptions, printDone, printRows } from '#idempay/cli/output/results.js';
import { write } from '#idempay/cli/output/terminal.js';
import { UsageError } from '#idempay/cli/usage.js';
import { isClientName, isExpiry, sha256Of } from '../../access/api-keys.js';
import { addApiKey, apiKeysIn, revokeApiKeys } from '../../access/key-file-edits.js';
import { isScope, SCOPES, type Scope } from '../../access/scopes.js';

/** Enough of a hash to name one key among thousands. */
const ID_LENGTH = 12;
/** An id may have more digits of the hash, up to all of them. */
const ID = new RegExp(`^[0-9a-f]{${ID_LENGTH},64}$`);

export interface KeyFileOption {
  readonly file?: string | undefined;
}

/** `idempay keys add` (rule A2). Throws UsageError if the arguments are wrong, and KeyFileError if the file is. */
export async function addKey(
  name: string,
  options: KeyFileOption & OutputOptions & { scopes?: string; expiresAt?: string },
): Promise<void> {
  const { json } = options;
  const file = fileOf(options);
  const [scopes, expiresAt] = [readScopes(options.scopes), readExpiry(options.expiresAt)];
  const secret = addApiKey(file, readName(name), scopes, expiresAt);
  const sha256 = sha256Of(secret);
  const id = sha256.slice(0, ID_LENGTH);
  const text = json ? JSON.stringify({ client: name, id, scopes, expiresAt: expiresAt ?? null, secret }) : secret;
  const takeBack = () => {
    revokeApiKeys(file, name, sha256);
    console.error('Nothing was added: the key was revoked again, because nobody has its secret.');
  };
  // A reader that has gone ends the process in the middle of the write.
  process.once('exit', takeBack);
  try {
    await write(`${text}\n`);
  } catch (error) {
    takeBack();
    throw error;
  } finally {
    process.off('exit', takeBack);
  }
  if (!json) console.error('This is the secret. It is shown this once: only its hash is kept.');
}

/** `idempay keys list`: without secrets. */
export async function listKeys(options: KeyFileOption & OutputOptions): Promise<void> {
  await printRows(
    apiKeysIn(fileOf(options)).map(({ name, sha256, scopes, expiresAt }) => ({
      client: name,
      id: sha256.slice(0, ID_LENGTH),
      scopes,
      expiresAt: expiresAt ?? null,
    })),
    [
      { title: 'client', of: ({ client }) => client },
      { title: 'id', of: ({ id }) => id },
      { title: 'scopes', of: ({ scopes }) => scopes.join(',') },
      { title: 'expires', of: ({ expiresAt }) => expiresAt ?? 'never' },
    ],
    options,
  );
}

/** `idempay keys revoke`: all keys of the client, or the one whose id is given. */
export async function revokeKeys(name: string, options: KeyFileOption & { id?: string }): Promise<void> {
  const file = fileOf(options);
  const revoked = revokeApiKeys(file, readName(name), readId(options.id));
  if (revoked === 0) throw new UsageError(`There is no such key in ${file}. 'keys list' shows the existing keys.`);
  await printDone([`${revoked} revoked: every process that reads the file refuses them within two seconds.`]);
}

function fileOf({ file }: KeyFileOption): string {
  if (file) return file;
  throw new UsageError('Say which file: set API_KEYS_FILE, or add --file PATH.');
}

function readName(name: string): string {
  if (isClientName(name)) return name;
  throw new UsageError('Name the client: 1 to 64 letters, digits and . _ -');
}

/** An id with fewer digits than the list shows is refused, because it may be cut off. */
function readId(id: string | undefined): string | undefined {
  if (id === undefined || ID.test(id)) return id;
  throw new UsageError("--id takes the id that 'keys list' shows. Leave --id out to revoke all keys of the client.");
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
