import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { checkOf, onlyWith, TEXT } from '../platform/json-schema.js';
import type { Caller } from './caller.js';
import { SCOPES, type Scope } from './scopes.js';

/** Tells a secret of ours from a token, and lets scanners find one that was published. */
export const SECRET_PREFIX = 'idem_';
const SECRET_BYTES = 32;

const CLIENT_NAME = /^[A-Za-z0-9._-]{1,64}$/;
const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

const problemOf = checkOf({
  type: 'array',
  items: onlyWith(
    {
      name: { ...TEXT, pattern: CLIENT_NAME.source },
      scopes: { type: 'array', minItems: 1, items: { enum: SCOPES } },
      sha256: { ...TEXT, pattern: '^[0-9a-f]{64}$' },
    },
    { expiresAt: { ...TEXT, pattern: ISO_TIME.source } },
  ),
});

/** One secret of one client, as the file of rule A2 keeps it: its hash, and never the secret itself. */
export interface ApiKey {
  /** Names the client. Several secrets may share it, for rotation. 1 to 64 letters, digits and `. _ -`. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** The digest of the whole secret, in lower-case hexadecimal digits. A secret is 256 random bits, so a fast hash is enough. */
  readonly sha256: string;
  /** ISO 8601 with an offset. Undefined if it never expires. */
  readonly expiresAt?: string;
}

/** The file cannot be used, or another command is writing it. The message says what to do. */
export class KeyFileError extends Error {
  override readonly name = 'KeyFileError';
}

/** Reads the text of an API key file. Returns the sentence that says what is wrong with it, without any of its content. */
export function readApiKeys(text: string): readonly ApiKey[] | { readonly problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'it is not JSON' };
  }
  const error = problemOf(value);
  if (error) return { problem: `${error.instancePath || 'the whole'} ${error.message}` };
  const keys = value as readonly ApiKey[];
  const wrong = keys.findIndex(({ expiresAt }) => expiresAt !== undefined && !isExpiry(expiresAt));
  return wrong < 0 ? keys : { problem: `/${wrong}/expiresAt is a time that does not exist` };
}

export function isClientName(name: string): boolean {
  return CLIENT_NAME.test(name);
}

/** True for a time that exists. `Date.parse` moves 30 February into March. */
export function isExpiry(text: string): boolean {
  if (!ISO_TIME.test(text) || Number.isNaN(Date.parse(text))) return false;
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

export function newSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
}

export function sha256Of(secret: string): string {
  return hash('sha256', secret, 'hex');
}

/** The API keys of one file, by the hash of their secrets. */
export class ApiKeys {
  /** Every client of the file, also one whose secrets have expired: it may have payments. */
  readonly clients: readonly string[];
  private readonly byHashStart = new Map<string, { hash: Buffer; caller: Caller; expiresAtMs: number }[]>();

  constructor(keys: readonly ApiKey[]) {
    this.clients = [...new Set(keys.map(({ name }) => clientOf(name)))];
    for (const { name, scopes, sha256, expiresAt } of keys) {
      const entry = {
        hash: Buffer.from(sha256, 'hex'),
        caller: { client: clientOf(name), scopes: new Set(scopes) },
        expiresAtMs: expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt),
      };
      const others = this.byHashStart.get(startOf(sha256));
      if (others) others.push(entry);
      else this.byHashStart.set(startOf(sha256), [entry]);
    }
  }

  /** The client with this secret; undefined when unknown or expired. The whole hash is compared in constant time (rule A2). */
  callerWith(secret: string, nowMs: number): Caller | undefined {
    const sha256 = sha256Of(secret);
    const presented = Buffer.from(sha256, 'hex');
    return this.byHashStart
      .get(startOf(sha256))
      ?.find(({ hash, expiresAtMs }) => timingSafeEqual(hash, presented) && nowMs < expiresAtMs)?.caller;
  }
}

function clientOf(name: string): string {
  return `key:${name}`;
}

/** Enough to find one key among thousands, too little to learn a hash from the time that the search takes. */
function startOf(sha256: string): string {
  return sha256.slice(0, 4);
}
