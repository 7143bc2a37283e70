import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { ApiKeys, KeyFileError, readApiKeys } from './api-keys.js';

/** A key that was revoked stops working within this time, in every process that reads the file (rule A2). */
const READ_AGAIN_MS = 1_000;

export interface KeyFile {
  /** The keys of the last valid content of the file. */
  readonly current: ApiKeys;
  close(): void;
}

/**
 * Reads the API keys of a file, again every second. It compares the content, because file times are too coarse and a mounted
 * secret changes by a link. Throws KeyFileError when the file cannot be used at the start. Later the last valid keys stay in
 * use, and `warn` is called once for each problem.
 */
export function openKeyFile(path: string, warn: (sentence: string) => void): KeyFile {
  let text = readAtStart(path);
  let current = keysIn(text);
  let lastProblem: string | undefined;

  async function readAgain(): Promise<void> {
    try {
      const found = await readFile(path, 'utf8');
      if (found !== text) {
        current = keysIn(found);
        text = found;
      }
      lastProblem = undefined;
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== lastProblem) warn(`the API keys were not replaced: ${problem}`);
      lastProblem = problem;
    }
  }

  const reading = setInterval(readAgain, READ_AGAIN_MS).unref();
  return {
    get current() {
      return current;
    },
    close: () => clearInterval(reading),
  };
}

function readAtStart(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
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
