import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { type Environment, type EnvironmentOptions, type Opened, settingsFor } from './environment.js';
import { processorNetworkFaults } from './network-faults.js';
import { PostgresUnderFault } from './postgres-under-fault.js';
import { processFaults } from './process-faults.js';
import { RedisPair } from './redis-pair.js';
import { postgresFaults, redisFaults } from './store-faults.js';

const PROCESSES = 3;

/** Three service processes on a Redis pair and a PostgreSQL of their own, each behind a proxy. */
export async function openDistributed(opened: Opened, options: EnvironmentOptions): Promise<Environment> {
  const { deduplicates, history, onKilled, onOwnEnd } = options;
  const [redis, postgres, processor] = await Promise.all([
    opened.keep(RedisPair.start()),
    opened.keep(PostgresUnderFault.start()),
    opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } })),
  ]);
  const proxy = await opened.keep(startTcpProxy(processor.port));
  const environment = {
    ...settingsFor(options),
    REDIS_URL: redis.url,
    DATABASE_URL: postgres.url,
    PROCESSOR_URL: proxy.through(processor.url),
  };
  const services: SupervisedService[] = [];
  for (let index = 1; index <= PROCESSES; index += 1) {
    const service = SupervisedService.create({
      name: `service ${index}`,
      environment,
      disturbances: history.disturbances,
      onKilled: (crashPoint) => onKilled('service', crashPoint),
      onOwnEnd,
    });
    services.push(await opened.keep(service));
  }
  return {
    services,
    processor,
    deduplicates,
    faults: [
      ...processFaults(services, processor, options),
      ...processorNetworkFaults(proxy, options),
      ...redisFaults(redis, options),
      ...postgresFaults(postgres, options),
    ],
    impossible: [],
    async heal() {
      for (const each of [redis.proxy, postgres.proxy, proxy]) each.heal();
      await Promise.all(services.map((service) => (service.crashAt ? service.kill() : undefined)));
      await Promise.all(services.map((service) => service.up()));
    },
    close: () => opened.close(),
  };
}
