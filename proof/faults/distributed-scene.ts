import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { Wire } from '../../testkit/proxy/wire.js';
import { Opened } from './opened.js';
import { PostgresUnderFault } from './postgres-under-fault.js';
import { processBlows } from './process-blows.js';
import { RedisPair } from './redis-pair.js';
import { type Scene, type SceneEvents, type SceneOptions, settingsFor } from './scene.js';
import { postgresBlows, redisBlows } from './store-blows.js';
import type { Traps } from './traps.js';
import { processorWireBlows } from './wire-blows.js';

const PROCESSES = 3;

/** Three service processes on a Redis pair and a PostgreSQL of their own, each behind a wire. */
export async function openDistributedScene(traps: Traps, events: SceneEvents, options: SceneOptions): Promise<Scene> {
  const { deduplicates } = options;
  const opened = new Opened();
  try {
    const [redis, postgres, processor] = await Promise.all([
      opened.keep(RedisPair.start()),
      opened.keep(PostgresUnderFault.start()),
      opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } })),
    ]);
    const wire = await opened.keep(Wire.to(processor.port));
    const environment = {
      ...settingsFor(options),
      REDIS_URL: redis.url,
      DATABASE_URL: postgres.url,
      PROCESSOR_URL: wire.url('http'),
    };
    const services: SupervisedService[] = [];
    for (let index = 1; index <= PROCESSES; index += 1) {
      const service = SupervisedService.create(`service ${index}`, environment, [], {
        killed: (crashPoint) => events.killed('service', crashPoint),
        failed: events.failed,
      });
      services.push(await opened.keep(service));
    }
    const blows = [
      ...processBlows(services, processor, traps, events, !deduplicates),
      ...processorWireBlows(wire, events),
    ];
    return {
      services,
      processor,
      deduplicates,
      blows: [...blows, ...redisBlows(redis, events), ...postgresBlows(postgres, events)],
      impossible: [],
      async heal() {
        for (const each of [redis.wire, postgres.wire, wire]) each.heal();
        await Promise.all(services.map((service) => (service.crashAt ? service.kill(0) : undefined)));
        await Promise.all(services.map((service) => service.up()));
      },
      close: () => opened.close(),
    };
  } catch (fault) {
    await opened.close();
    throw fault;
  }
}
