// A handler made with @aws-lambda-powertools/idempotency and its cache persistence layer, as its documentation advises:
// `makeIdempotent` around a handler that throws when it failed, the key by `eventKeyJmesPath`. The parts of Lambda and a gateway are here:
// an event, a context with the time that remains, and a status for each of the library's errors.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache';
import { createClient } from 'redis-client-6';
import { charge } from './charge.mjs';

const { HOST, PORT, REDIS_URL } = process.env;

/** After this Lambda would end the invocation, and the library lets a repeat run again: as long as our lock. */
const INVOCATION_MS = 30_000;

const client = createClient({ url: REDIS_URL });
// As node-redis asks for: without a listener the process ends when Redis goes down.
client.on('error', (error) => console.error(error.message));
await client.connect();

/** The error that the handler throws, so that the library removes its record, has the result; the library's errors have a name. */
const STATUSES = { IdempotencyAlreadyInProgressError: 409, IdempotencyValidationError: 422, IdempotencyKeyError: 400 };
const answerTo = ({ result, name, message }) => result ?? { status: STATUSES[name] ?? 500, body: { error: message } };

const handler = makeIdempotent(
  async ({ headers, body }) => {
    const result = await charge(headers['idempotency-key'], JSON.parse(body));
    if (result.status !== 200) throw Object.assign(new Error(result.body.error), { result });
    return result;
  },
  {
    persistenceStore: new CachePersistenceLayer({ client }),
    // `payloadValidationJmesPath` would refuse other bodies, but with the cache layer of this version it refuses every repeat:
    // the layer does not keep the hash when the record is completed.
    config: new IdempotencyConfig({ eventKeyJmesPath: 'headers."idempotency-key"', throwOnNoIdempotencyKey: true }),
  },
);

createServer(async (request, response) => {
  const endsAt = Date.now() + INVOCATION_MS;
  const event = { headers: request.headers, body: await text(request) };
  const context = { getRemainingTimeInMillis: () => Math.max(0, endsAt - Date.now()) };
  const { status, body } = await handler(event, context).catch(answerTo);
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}).listen(PORT, HOST);
