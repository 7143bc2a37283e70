import { Readable } from 'node:stream';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { LiveView } from '../../live/live-view.js';
import { publicErrors } from '../errors/public-errors.js';
import { always, NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { whenClientIsGone } from '../requests/client-gone.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { openLiveStream } from './live-stream.js';

const Query = Type.Object({ since: Type.Optional(Type.String()) });
const PARAMETERS = Object.keys(Query.properties);
/** Milliseconds since the epoch, to the year 5138. */
const MOMENT_MS = /^\d{1,14}$/;

/** The samples of all processes as they come, one JSON object for each line. Asks no store that payments wait for. */
export function watchLive(server: FastifyInstance, { live }: { readonly live: LiveView }): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();
  const scopes = ['metrics'] as const;
  app.get(
    '/api/live',
    {
      schema: { querystring: Query },
      config: { scopes, description, staysOpen: true },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, PARAMETERS);
      const since = readSince(request.query.since);
      const send = (stream: Readable) =>
        reply
          .header('content-type', 'application/x-ndjson; charset=utf-8')
          .header('cache-control', 'no-store')
          // nginx would keep lines until it has some kilobytes.
          .header('x-accel-buffering', 'no')
          .send(stream);
      if (request.method === 'HEAD') return send(Readable.from([]));
      let stopWatching = () => {};
      const opened = openLiveStream(
        () => server.mayStill(request, scopes),
        () => reply.raw.destroy(),
        () => stopWatching(),
      );
      const watching = live.watch(since, opened);
      if (!watching) {
        opened.stream.destroy();
        throw publicErrors.tooManyWatchers();
      }
      stopWatching = watching;
      send(opened.stream);
      endWithItsReader(reply, opened.stream);
      return reply;
    },
  );
}

/** Throws the 400 that names the parameter. An empty one counts as absent. */
function readSince(text: string | undefined): number {
  if (!text) return Number.NEGATIVE_INFINITY;
  if (MOMENT_MS.test(text)) return Number(text);
  throw publicErrors.invalidRequest("'since' must be a time in milliseconds since 1970, such as 1795000000000.");
}

/**
 * Elsewhere a client that has ended its sending side may still wait for its answer. Here the answer has no end that it could wait for, and a
 * page that is closed or loaded again would hold its place until the second line that is written to nobody.
 */
function endWithItsReader(reply: FastifyReply, stream: Readable): void {
  const { raw, request } = reply;
  const { socket } = request.raw;
  const end = () => {
    stream.destroy();
    raw.destroy();
  };
  whenClientIsGone(reply, end);
  if (socket.readableEnded) end();
  socket.once('end', end);
  raw.once('close', () => socket.off('end', end));
}

const NO_BUFFERING = always('X-Accel-Buffering', 'A proxy passes each line on at once.', {
  const: 'no',
});
const LATENCY = {
  bounds: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  counts: [80, 20, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
};
const INSTANCE = '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10';
const LINES = [
  { type: 'hello', intervalMs: 5_000, keepMs: 900_000, instance: INSTANCE },
  {
    type: 'sample',
    at: 1_795_000_000_000,
    instance: INSTANCE,
    process: { host: 'pay-1', pid: 7, version: '0.1.0', startedAt: 1_794_990_000_000 },
    spanMs: 5_000,
    payments: { processed: 90, replayed: 16 },
    latency: LATENCY,
    cache: { hit: 40, miss: 2, bypass: 0 },
    lists: { sent: 3, notModified: 12 },
    commit: LATENCY,
    loopDelay: LATENCY,
    attempts: { request: 2, recovery: 0 },
    waiters: 0,
    backlog: { payments: 0, oldestMs: 0 },
    queues: { 'sqlite writes': 0 },
    stores: { sqlite: true },
    processorUp: true,
    memoryBytes: 120_000_000,
  },
  { type: 'beat', at: 1_795_000_005_000 },
];

const description: RouteDescription = {
  operationId: 'watchLive',
  tag: 'Operations',
  summary: 'What each process does, as it happens',
  text: `A response that stays open, one JSON object for each line. First \`hello\`, then the samples of the last 15 minutes of all processes, then each new one; a \`beat\` where nothing came for five seconds. A sample has what \`/metrics\` of its process shows: counts of the last \`spanMs\` (\`payments\` by outcome, \`cache\`, \`lists\`, and the buckets of \`latency\` of \`POST /api/payment\`, \`commit\` and \`loopDelay\`, whose bounds are seconds), and the state of that moment. \`backlog\` is null until it was seen once.

The stream ends when its process stops, when its credentials end, and for a client that takes nothing for half a minute. Ask again then, with \`since\`: the time of the last sample less a minute, as another process' clock may differ; a sample is known by \`instance\` and \`at\`. While Redis is away only the process that is asked is shown. HEAD answers at once.`,
  parameters: {
    since: {
      text: 'Sends only those earlier samples that are after this time, in milliseconds since 1970.',
      schema: { type: 'integer', minimum: 0 },
      example: 1_795_000_000_000,
    },
  },
  answers: {
    200: {
      text: 'The stream.',
      headers: [NO_STORE, NO_BUFFERING],
      content: {
        mediaType: 'application/x-ndjson',
        schema: { type: 'string' },
        examples: { some: LINES.map((line) => `${JSON.stringify(line)}\n`).join('') },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ from: '' }, PARAMETERS),
      invalidSince: () => readSince('now'),
    },
    'tooManyWatchers',
  ],
  asksNoStore: true,
};
