import type { Socket } from 'node:net';
import { pino } from 'pino';
import { createApp } from '#idempay/app.js';
import { readConfig } from '#idempay/config.js';
import { CONNECTION_LIMITS, type ConnectionLimits } from '#idempay/http/connections/connection-limits.js';
import { createListener } from '#idempay/http/connections/listener.js';
import { openTraces } from '#idempay/traces/open.js';
import { type Environment, type LogLine, schemeOf } from './service.js';

export type ServiceInProcess = Awaited<ReturnType<typeof serveInProcess>>;

/** The whole service behind a real port, in the process of the test: starts in milliseconds, and cannot be killed. */
export async function serveInProcess(
  environment: Environment,
  limits: Partial<ConnectionLimits> = {},
  migrations?: URL,
) {
  const read = readConfig({ HOST: '127.0.0.1', PORT: '0', ...environment });
  const config = { ...read, deployment: { ...read.deployment, migrations } };
  const logs: LogLine[] = [];
  const sink = { write: (line: string) => void logs.push(JSON.parse(line) as LogLine) };
  const traces = await openTraces(config.traces, () => logger);
  const logger = pino({ level: config.logLevel, ...(traces && { mixin: traces.logFields }) }, sink);
  const listener = createListener(logger, config.certificateFiles, {
    ...CONNECTION_LIMITS,
    maxConnections: config.maxConnections,
    ...limits,
  });
  const accepted = new Set<Socket>();
  listener.server.on('connection', (socket: Socket) => {
    accepted.add(socket);
    socket.once('close', () => accepted.delete(socket));
  });
  const port = await listener.listen(config.host, config.port);
  const app = await createApp(config, logger, listener, traces).catch(async (error: unknown) => {
    await listener.close();
    throw error;
  });
  await app.serve();
  /** A drain of at most `limitMs`; nothing of the service is left when this resolves. */
  const stop = (limitMs?: number) => app.drain(limitMs);
  /** The service's end of a connection of this process. Undefined until it is accepted, and after it was closed. */
  const otherEndOf = (client: Socket) => [...accepted].find(({ remotePort }) => remotePort === client.localPort);
  const openConnections = () => accepted.size;
  return { url: `${schemeOf(environment)}://127.0.0.1:${port}`, port, logs, stop, otherEndOf, openConnections };
}
