import { openRereadFile, type RereadFile } from '../platform/reread-file.js';
import { ApiKeys, KeyFileError, readApiKeys } from './api-keys.js';

/**
 * Reads the API keys of a file, again every second: so a key that was revoked stops working within that time, in every process that reads
 * the file (rule A2). Throws KeyFileError when the file cannot be used at the start. Later the last valid keys stay in use, and `warn` is
 * called once for each problem.
 */
export function openKeyFile(path: string, warn: (sentence: string) => void): RereadFile<ApiKeys> {
  try {
    return openRereadFile(path, keysIn, (problem) => warn(`the API keys were not replaced: ${problem}`));
  } catch (error) {
    if (error instanceof KeyFileError) throw error;
    throw new KeyFileError(
      `API_KEYS_FILE cannot be read: ${(error as Error).message}. 'npx idempay keys add' writes one.`,
    );
  }
}

function keysIn(text: string): ApiKeys {
  const keys = readApiKeys(text);
  if ('problem' in keys) throw new KeyFileError(`API_KEYS_FILE is not a file of API keys: ${keys.problem}`);
  return new ApiKeys(keys);
}
