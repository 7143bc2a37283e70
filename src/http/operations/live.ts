import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { LiveView } from '../../live/live-view.js';
import { SampleSchema } from '../../live/sample.js';
import { INTERVAL_MS } from '../../live/sampler.js';
import { KEEP_MS } from '../../live/shared-samples.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { whenClientIsGone } from '../requests/client-gone.js';
import { type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';

const Query = querySchema('since');
const PARAMETERS = Object.keys(Query.properties);
/** Milliseconds since the epoch, to the year 5138. */
const MOMENT_MS = /^\d{1,14}$/;
/** Some 15 kB. */
const SAMPLES_OF_A_PART = 10;

/** The samples of all processes, for a client that asks again every `intervalMs`. Asks no store that payments wait for. */
export function getLiveSamples(server: FastifyInstance, { live }: { readonly live: LiveView }): void {
  const app = server.withTypeProvider<ParametersProvider>();
  /** Answers that are not sent whole yet. */
  const unsent = new Set<Readable>();

  app.get(
    '/api/live',
    {
      schema: { querystring: Query },
      config: { scopes: ['metrics'], description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, PARAMETERS);
      const since = readSince(request.query.since);
      // HEAD needs no samples; with an empty stream no Content-Length is sent.
      answerWith(reply, request.method === 'HEAD' ? undefined : live.samplesAfter(since), (samples) => {
        const body = Readable.from(samples ? partsOf(live.instance, samples) : []);
        unsent.add(body);
        body.once('close', () => unsent.delete(body));
        reply.header('content-type', 'application/json; charset=utf-8').header('cache-control', 'no-store').send(body);
        whenClientIsGone(reply, () => body.destroy());
      });
    },
  );

  // A drain waits for no client that does not read: a page asks another process instead.
  app.addHook('preClose', (done) => {
    for (const body of unsent) body.destroy();
    done();
  });
}

/** The body in parts, each made when the client is ready for it: together, the samples of many processes are 15 MB. */
function* partsOf(instance: string, samples: readonly string[]): Generator<string> {
  const facts = JSON.stringify({ intervalMs: INTERVAL_MS, keepMs: KEEP_MS, instance });
  yield `${facts.slice(0, -1)},"samples":[`;
  for (let from = 0; from < samples.length; from += SAMPLES_OF_A_PART) {
    yield (from > 0 ? ',' : '') + samples.slice(from, from + SAMPLES_OF_A_PART).join(',');
  }
  yield ']}';
}

/** Throws the 400 that names the parameter. An empty one counts as absent. */
function readSince(text: string | undefined): number {
  if (!text) return Number.NEGATIVE_INFINITY;
  if (MOMENT_MS.test(text)) return Number(text);
  throw publicErrors.invalidRequest("'since' must be a time in milliseconds since 1970, such as 1795000000000.");
}

const LATENCY = {
  bounds: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  counts: [80, 20, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
};
const INSTANCE = '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10';
const SAMPLE = {
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
};

const description: RouteDescription = {
  operationId: 'getLiveSamples',
  tag: 'Operations',
  summary: 'What each process did in the last 15 minutes',
  text: `The samples of all processes, one every \`intervalMs\` of each, oldest first. A sample has what \`/metrics\` of its process shows: counts of the last \`spanMs\` (\`payments\` by outcome, \`cache\`, \`lists\`, and the buckets of \`latency\` of \`POST /api/payment\`, \`commit\` and \`loopDelay\`, whose bounds are seconds), and the state of that moment. \`backlog\` is null until it was seen once.

To follow them, ask again every \`intervalMs\`, with \`since\`: the time of the newest sample less a minute, as another process' clock may differ; a sample is known by \`instance\` and \`at\`. While Redis is down only the samples of the process that is asked are there.`,
  parameters: {
    since: {
      text: 'Only samples that are after this time, in milliseconds since 1970. A time that is more than a minute ahead of the service counts as absent, because its clock was set back.',
      schema: { type: 'integer', minimum: 0 },
      example: 1_795_000_000_000,
    },
  },
  answers: {
    200: {
      text: 'The samples.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/LiveSamples' },
        examples: { some: { intervalMs: INTERVAL_MS, keepMs: KEEP_MS, instance: INSTANCE, samples: [SAMPLE] } },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ from: '' }, PARAMETERS),
      invalidSince: () => readSince('now'),
    },
  ],
  asksNoStore: true,
};

export const LiveSamplesSchema = whole(
  {
    intervalMs: { type: 'integer', description: 'From one sample of a process to the next.' },
    keepMs: { type: 'integer', description: 'How long samples are kept.' },
    instance: { type: 'string', format: 'uuid', description: 'The process that answered, until it ends.' },
    samples: { type: 'array', items: SampleSchema },
  },
  'What each process did, in samples of a few seconds.',
);
