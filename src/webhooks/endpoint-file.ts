import type { ErrorObject } from 'ajv';
import { isClient } from '../access/client-name.js';
import { checkOf, onlyWith, TEXT } from '../platform/json-schema.js';
import { isLoopback } from '../platform/loopback.js';
import { openRereadFile, type RereadFile } from '../platform/reread-file.js';

/** More than anybody needs; each has a lease to renew and pages to read. */
const MOST_ENDPOINTS = 100;
/** The alphabet of clients' names, because a name is a part of paths, labels and rows. */
export const ENDPOINT_NAME = /^[A-Za-z0-9._-]{1,64}$/;
/** Standard Webhooks: 24 to 64 bytes in base64. */
const SECRET = /^whsec_[A-Za-z0-9+/]+={0,2}$/;
const SECRET_BYTES = { least: 24, most: 64 };
const MOST_SECRETS = 4;
const LONGEST_URL = 2_000;

const problemOfForm = checkOf({
  type: 'array',
  maxItems: MOST_ENDPOINTS,
  items: onlyWith(
    {
      name: { ...TEXT, pattern: ENDPOINT_NAME.source },
      url: { ...TEXT, maxLength: LONGEST_URL },
      secrets: { type: 'array', minItems: 1, maxItems: MOST_SECRETS, items: { ...TEXT, pattern: SECRET.source } },
    },
    { client: TEXT, private: { const: true } },
  ),
});

/** Each member of an endpoint, and the form that it must have. */
const MEMBERS: ReadonlyMap<string, string> = new Map([
  ['name', '1 to 64 letters, digits, dots, underscores and hyphens'],
  ['url', `an address of at most ${LONGEST_URL} characters`],
  ['client', 'a text, such as key:shop'],
  ['secrets', `an array of 1 to ${MOST_SECRETS} texts, each of whsec_ and 24 to 64 bytes in base64`],
  ['private', 'true'],
]);

/** A receiver of settlements, as the file has it. */
export interface Endpoint {
  readonly name: string;
  /** https; http only for a receiver on this machine. */
  readonly url: string;
  /** Only settlements of this client. If omitted, of all clients. */
  readonly client?: string;
  /** Each secret signs. There are two during a change. */
  readonly secrets: readonly string[];
  /** The receiver may have a loopback, link-local or private address. If omitted, it must be public. */
  readonly private?: true;
}

/** The file cannot be used. The message says what to do. */
export class WebhooksFileError extends Error {
  override readonly name = 'WebhooksFileError';
}

/** Throws WebhooksFileError when the file cannot be used at the start. Later the last valid endpoints stay in use. */
export function openEndpointFile(path: string, warn: (sentence: string) => void): RereadFile<readonly Endpoint[]> {
  try {
    return openRereadFile(path, endpointsIn, (problem) => warn(`the webhook endpoints were not replaced: ${problem}`));
  } catch (error) {
    if (error instanceof WebhooksFileError) throw error;
    throw new WebhooksFileError(`WEBHOOKS_FILE cannot be read: ${(error as Error).message}.`);
  }
}

/** Throws WebhooksFileError, with a sentence that has no secret in it. */
export function endpointsIn(text: string): readonly Endpoint[] {
  const refuse = (problem: string) => new WebhooksFileError(`WEBHOOKS_FILE is not a file of endpoints: ${problem}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse('it is not JSON');
  }
  if (!Array.isArray(value)) throw refuse('it is not an array of endpoints');
  const error = problemOfForm(value);
  if (error) throw refuse(sentenceOf(error));
  const endpoints = value as readonly Endpoint[];
  const names = new Set<string>();
  for (const endpoint of endpoints) {
    const problem = names.has(endpoint.name) ? 'is there twice' : problemOf(endpoint);
    if (problem !== undefined) throw refuse(`the endpoint ${endpoint.name} ${problem}`);
    names.add(endpoint.name);
  }
  return endpoints;
}

/** An error of the schema as a sentence for the person who writes the file. It has no value of the file in it. */
function sentenceOf({ instancePath, keyword, params }: ErrorObject): string {
  const [, index, member] = instancePath.split('/');
  if (!index) return `it may have at most ${MOST_ENDPOINTS} endpoints`;
  const entry = `entry ${Number(index) + 1}`;
  if (member !== undefined) return `${entry} has a '${member}' that is not ${MEMBERS.get(member)}`;
  if (keyword === 'required') return `${entry} has no '${params.missingProperty}'`;
  if (keyword !== 'additionalProperties') return `${entry} is no object`;
  const known = [...MEMBERS.keys()].join(', ');
  return `${entry} has a member '${params.additionalProperty}', and an endpoint has ${known} only`;
}

function problemOf(endpoint: Endpoint): string | undefined {
  const { url, client, secrets } = endpoint;
  if (client !== undefined && !isClient(client))
    return 'has a client that cannot exist: name it as records do, such as key:shop';
  if (!secrets.every(isLongEnough)) return 'has a secret that is not 24 to 64 bytes in base64';
  const location = URL.canParse(url) ? new URL(url) : undefined;
  if (!location || !['http:', 'https:'].includes(location.protocol)) return 'has a url that is no https URL';
  if (location.username || location.password || location.hash) return 'has a url with a user or a fragment';
  if (location.protocol === 'http:' && !(endpoint.private && isLoopback(location.hostname)))
    return 'has an http url: only a receiver on this machine may have one, with "private": true';
  return undefined;
}

function isLongEnough(secret: string): boolean {
  const { length } = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return length >= SECRET_BYTES.least && length <= SECRET_BYTES.most;
}
