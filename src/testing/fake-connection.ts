import { type Server, request as send } from 'node:http';
import { duplexPair, type Readable } from 'node:stream';

export interface SentRequest {
  readonly method: string;
  /** With its query. */
  readonly url: string;
  /** Names and values in turns, as Node.js has them: a name may come twice. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface WholeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** They are of one connection, and the answer goes on over another one, whole. */
const HOP_BY_HOP = new Set(['connection', 'content-length', 'expect', 'keep-alive', 'transfer-encoding']);

/** Asks a server that needs not listen: bytes of HTTP in both directions, over a connection in memory of its own. */
export function askOverMemory(server: Server, { method, url, rawHeaders, body }: SentRequest): Promise<WholeAnswer> {
  const [ours, theirs] = duplexPair();
  const sent = ofTheRequest(rawHeaders);
  const length = body.length > 0 ? ['content-length', `${body.length}`] : [];
  return new Promise((resolve, reject) => {
    const createConnection = () => {
      server.emit('connection', theirs);
      return ours;
    };
    const asked = send({ createConnection, method, path: url, headers: [...sent, ...length] });
    asked.on('error', reject);
    asked.on('response', (response) => {
      const { statusCode: status = 0, rawHeaders: answered } = response;
      const headers = headersOf(ofTheRequest(answered));
      bytesOf(response).then((whole) => resolve({ status, headers, body: whole }), reject);
    });
    asked.end(body);
  });
}

/** `buffer` of `node:stream/consumers` makes a blob of the bytes first. */
export async function bytesOf(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** By name in lower case; values of the same name are one, as in `Headers`. */
export function headersOf(rawHeaders: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = rawHeaders.slice(index, index + 2);
    const known = headers[name.toLowerCase()];
    headers[name.toLowerCase()] = known === undefined ? value : `${known}, ${value}`;
  }
  return headers;
}

function ofTheRequest(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_, index) => !HOP_BY_HOP.has((rawHeaders[index - (index % 2)] as string).toLowerCase()));
}
