import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { Wire } from '../../testkit/proxy/wire.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { pause } from '../../testkit/time/until.js';
import { Opened } from './opened.js';
import { processBlows } from './process-blows.js';
import { type Blow, type Scene, type SceneEvents, type SceneOptions, settingsFor } from './scene.js';
import type { Traps } from './traps.js';
import { processorWireBlows } from './wire-blows.js';

/** Several times what a session writes; filling it takes a moment. */
const DISK_MEGABYTES = 256;
const LONGEST_FULL_MS = 1_500;

/** One service process on one folder; `onSmallDisk`: on a disk that can be filled up, else on the machine's own. */
export async function openEmbeddedScene(
  traps: Traps,
  events: SceneEvents,
  options: SceneOptions & { readonly onSmallDisk: boolean },
): Promise<Scene> {
  const { deduplicates, onSmallDisk } = options;
  const impossible: string[] = [];
  const opened = new Opened();
  try {
    const disk = onSmallDisk ? await smallDisk(opened, impossible) : undefined;
    const folder = disk?.folder ?? (await temporaryFolder(opened));
    const processor = await opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } }));
    const wire = await opened.keep(Wire.to(processor.port));
    const environment = { ...settingsFor(options), DATA_DIR: folder, PROCESSOR_URL: wire.url('http') };
    const starting = SupervisedService.create('service', environment, disk?.launcher ?? [], {
      killed: (crashPoint) => events.killed('service', crashPoint),
      failed: events.failed,
    });
    const service = await opened.keep(starting);
    return {
      services: [service],
      processor,
      deduplicates,
      blows: [
        ...processBlows([service], processor, traps, events, !deduplicates),
        ...processorWireBlows(wire, events),
        ...(disk ? [fullDisk(disk, events)] : []),
      ],
      impossible,
      async heal() {
        wire.heal();
        if (service.crashAt) await service.kill(0);
        await service.up();
      },
      close: () => opened.close(),
    };
  } catch (fault) {
    await opened.close();
    throw fault;
  }
}

async function smallDisk(opened: Opened, impossible: string[]): Promise<SmallDisk | undefined> {
  try {
    const disk = await mountSmallDisk(DISK_MEGABYTES);
    await opened.keep(Promise.resolve({ close: () => disk.remove() }));
    return disk;
  } catch (fault) {
    impossible.push(`the disk full: ${(fault as Error).message}`);
    return undefined;
  }
}

async function temporaryFolder(opened: Opened): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-faults-'));
  await opened.keep(Promise.resolve({ close: () => rm(folder, { recursive: true, force: true }) }));
  return folder;
}

function fullDisk(disk: SmallDisk, events: SceneEvents): Blow {
  return {
    name: 'the disk full',
    hits: 'disk',
    weight: 2,
    async strike(random) {
      const disturbance = events.disturbing();
      await disk.fill();
      await pause(random.below(LONGEST_FULL_MS));
      await disk.free();
      disturbance.ended();
    },
  };
}
