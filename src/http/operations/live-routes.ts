import { Readable } from 'node:stream';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { LiveView } from '../../live/live-view.js';
import { publicErrors } from '../errors/public-errors.js';
import { whenClientIsGone } from '../requests/client-gone.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import * as descriptions from './live-description.js';
import { LIVE_PARAMETERS, readSince } from './live-request.js';
import { openLiveStream } from './live-stream.js';

const LiveQuery = Type.Object({ since: Type.Optional(Type.String()) });

/** The samples of all processes as they come, one JSON object for each line. Asks no store that payments wait for. */
export function registerLiveRoute(server: FastifyInstance, live: LiveView): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();
  const scopes = ['metrics'] as const;
  app.get(
    '/api/live',
    {
      schema: { querystring: LiveQuery },
      config: { scopes, description: descriptions.live, staysOpen: true },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, LIVE_PARAMETERS);
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
