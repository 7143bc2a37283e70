import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Option } from '@commander-js/extra-typings';
import type { CallOptions, Idempay } from '#idempay/client';
import { isTlsFault } from '#idempay/platform/tls-fault.js';
import { signalOfUser } from './interruption.js';
import { UsageError } from './usage.js';

const DEADLINE_SECONDS = 30;
const MOST_SECONDS = 86_400;

/** Options that every command has which talks to a running service. */
export interface ConnectionOptions {
  readonly url: string;
  readonly apiKeyFile?: string | undefined;
  readonly deadline: number;
  /** Seconds for which the service is certain to know a key; without it the client's default. */
  readonly keyLife?: number | undefined;
}

export const URL_OPTION = new Option('--url <address>', 'where the service is')
  .env('IDEMPAY_URL')
  .default('http://127.0.0.1:8080');
export const API_KEY_FILE_OPTION = new Option(
  '--api-key-file <file>',
  'holds the API key; without it IDEMPAY_API_KEY is the key',
).env('IDEMPAY_API_KEY_FILE');
export const DEADLINE_OPTION = deadlineOption(DEADLINE_SECONDS);

export function deadlineOption(seconds: number) {
  return new Option('--deadline <seconds>', 'time for one request with all its attempts')
    .default(seconds)
    .argParser((text) => wholeNumber('--deadline', text, 1, MOST_SECONDS));
}

export interface Connection {
  readonly idempay: Idempay;
  /** The same, with more headers in each request. */
  readonly asking: (headers: Readonly<Record<string, string>>) => Idempay;
  /** For each call. */
  readonly call: CallOptions;
  /** Identifies the service and the owner of the keys after a crash. The credential cannot be derived from it. */
  readonly identity: { readonly url: string; readonly credential: string };
}

/**
 * The client of the service. The API key is no argument: everybody on the machine could read it in the list of processes. The first
 * Ctrl-C, SIGTERM or SIGHUP ends the call, which then says what is known of it; the next one ends the program.
 */
export async function connect({ url, apiKeyFile, deadline, keyLife }: ConnectionOptions): Promise<Connection> {
  const { Idempay } = await import('#idempay/client');
  const apiKey = apiKeyFile ? keyIn(apiKeyFile) : process.env.IDEMPAY_API_KEY?.trim() || undefined;
  const send = reportingFetch(url, deadline);
  const usual = { baseUrl: url, apiKey, keyLifeMs: keyLife === undefined ? undefined : keyLife * 1000 };
  return {
    idempay: new Idempay({ ...usual, fetch: send }),
    asking: (more) =>
      new Idempay({
        ...usual,
        fetch: (input, init) => send(input, { ...init, headers: { ...(init?.headers as object), ...more } }),
      }),
    call: { signal: signalOfUser(), deadlineMs: deadline * 1000 },
    identity: { url: url.replace(/\/+$/, ''), credential: apiKey === undefined ? '' : digestOf(apiKey) },
  };
}

/** Reports the first failed attempt on a terminal, so that the user knows why the command waits. */
function reportingFetch(address: string, deadline: number): typeof fetch {
  let isReported = !process.stderr.isTTY;
  return async (input, init) => {
    try {
      return await fetch(input, init);
    } catch (error) {
      // With such a fault there is no further attempt.
      if (!isReported && !init?.signal?.aborted && !isTlsFault(error)) {
        isReported = true;
        const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
        console.error(`No answer from ${address} (${code ?? 'failed'}): trying for up to ${deadline} s.`);
      }
      throw error;
    }
  };
}

function keyIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`The API key cannot be read: ${(error as Error).message}.`);
  }
}

const digestOf = (text: string) => createHash('sha256').update(text).digest('base64url').slice(0, 16);

/** Throws UsageError for text that is no plain whole number in the bounds. */
export function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`${option} takes a whole number from ${least} to ${most}.`);
}
