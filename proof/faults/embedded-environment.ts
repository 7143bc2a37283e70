import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause } from '../../testkit/time/until.js';
import {
  disturbing,
  type Environment,
  type EnvironmentOptions,
  type Fault,
  type Opened,
  settingsFor,
} from './environment.js';
import { processorNetworkFaults } from './network-faults.js';
import { processFaults } from './process-faults.js';

/** Several times what a session writes; filling it takes a moment. */
const DISK_MEGABYTES = 256;
const LONGEST_FULL_MS = 1_500;

/** One service process on one folder. */
export async function openEmbedded(opened: Opened, options: EnvironmentOptions): Promise<Environment> {
  const { deduplicates, onSmallDisk, history, onKilled, onOwnEnd } = options;
  const impossible: string[] = [];
  const disk = onSmallDisk ? await smallDisk(opened, impossible) : undefined;
  const folder = disk?.folder ?? (await temporaryFolder(opened));
  const processor = await opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } }));
  const proxy = await opened.keep(startTcpProxy(processor.port));
  const environment = { ...settingsFor(options), DATA_DIR: folder, PROCESSOR_URL: proxy.through(processor.url) };
  const service = await opened.keep(
    SupervisedService.create({
      name: 'service',
      environment,
      launcher: disk?.launcher ?? [],
      disturbances: history.disturbances,
      onKilled: (crashPoint) => onKilled('service', crashPoint),
      onOwnEnd,
    }),
  );
  return {
    services: [service],
    processor,
    deduplicates,
    faults: [
      ...processFaults([service], processor, options),
      ...processorNetworkFaults(proxy, options),
      ...(disk ? [fullDisk(disk, options)] : []),
    ],
    impossible,
    async heal() {
      proxy.heal();
      if (service.crashAt) await service.kill();
      await service.up();
    },
    close: () => opened.close(),
  };
}

async function smallDisk(opened: Opened, impossible: string[]): Promise<SmallDisk | undefined> {
  try {
    const disk = await mountSmallDisk(DISK_MEGABYTES);
    await opened.keep({ close: () => disk.remove() });
    return disk;
  } catch (fault) {
    impossible.push(`the disk full: ${(fault as Error).message}`);
    return undefined;
  }
}

async function temporaryFolder(opened: Opened): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-faults-'));
  await opened.keep({ close: () => rm(folder, { recursive: true, force: true }) });
  return folder;
}

function fullDisk(disk: SmallDisk, options: EnvironmentOptions): Fault {
  return disturbing(options, { name: 'the disk full', hits: 'disk', weight: 2 }, async (random) => {
    await disk.fill();
    await pause(random.below(LONGEST_FULL_MS));
    await disk.free();
  });
}
