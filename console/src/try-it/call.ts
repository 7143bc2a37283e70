import { hasOwnHeader, messageOf } from '@idempay/client/proof';
import { addressOf, type Http } from '../http/http.js';
import { sentenceOf } from '../http/service-error.js';

/** One request of this page, as `curl` would send it too. */
export interface Call {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly json?: unknown;
}

export type Outcome =
  | {
      readonly status: number;
      readonly reason: string;
      readonly headers: readonly (readonly [name: string, value: string])[];
      readonly body: string;
      readonly tookMs: number;
      /** The service itself gave the answer, and no gateway (rule P23). */
      readonly isOwn: boolean;
    }
  | { readonly problem: string };

/** The headers that a payer looks at in an answer. */
const HEADERS_THAT_MATTER = [
  'idempotent-replayed',
  'retry-after',
  'idempay-attempt-state',
  'idempotency-key',
  'content-type',
  'cache-control',
  'x-request-id',
];

export async function sendCall(http: Http, { method, path, headers, json }: Call): Promise<Outcome> {
  const begunAt = performance.now();
  try {
    const response = await http.send(path, { method, headers, ...(json !== undefined && { json }) });
    const body = await response.text();
    const whole = { status: response.status, headers: response.headers, text: body };
    return {
      status: response.status,
      reason: response.statusText,
      headers: HEADERS_THAT_MATTER.flatMap((name) => {
        const value = response.headers.get(name);
        return value === null ? [] : [[name, value] as const];
      }),
      body,
      tookMs: performance.now() - begunAt,
      isOwn: response.ok ? hasOwnHeader(response.headers) : messageOf(whole) !== undefined,
    };
  } catch (error) {
    return { problem: sentenceOf(error) };
  }
}

/** Undefined if the answer does not have that header, or if there is no answer. `name` is in lower case. */
export function headerIn(outcome: Outcome, name: string): string | undefined {
  return 'problem' in outcome ? undefined : outcome.headers.find(([each]) => each === name)?.[1];
}

/** The string that the answer's body is. Undefined if it is another JSON value. */
export function stringIn(outcome: Outcome): string | undefined {
  if ('problem' in outcome) return undefined;
  try {
    const value: unknown = JSON.parse(outcome.body);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** For a shell. The credential is a variable of it, so that a copied command holds no secret. */
export function curlOf({ method, path, headers, json }: Call, hasCredential: boolean): string {
  const parts = [`curl -i ${quoted(addressOf(path))}`];
  if (method !== 'GET' && json === undefined) parts.push(`-X ${method}`);
  if (hasCredential) parts.push('-H "Authorization: Bearer $TOKEN"');
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (json !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(json))}`);
  return parts.join(' \\\n  ');
}

/** The shell command for calls that are sent at once; `curl` writes each answer when it is there. */
export function commandOf(calls: readonly Call[], hasCredential: boolean): string {
  const commands = calls.map((call) => curlOf(call, hasCredential));
  return commands.length === 1 ? (commands[0] ?? '') : `${commands.map((command) => `${command} &`).join('\n')}\nwait`;
}

/** In single quotes a shell takes everything as it stands, but for a single quote. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
