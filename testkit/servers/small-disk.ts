import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const PIECE = Buffer.alloc(65_536);
const NEEDED =
  'A test needs a small disk to fill: run it as root with CAP_SYS_ADMIN, or on a kernel that lets users make ' +
  'namespaces (util-linux, `unshare --user --map-root-user --mount`). It said:';

export type SmallDisk = Awaited<ReturnType<typeof mountSmallDisk>>;

/**
 * A file system of a few megabytes, in memory, that a test can fill up without harm to the machine. It is mounted in a
 * namespace of its own, held by a process that lives as long as the disk.
 */
export async function mountSmallDisk(megabytes: number) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-disk-'));
  const mount = ['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder];
  // It reads its standard input, so it ends with this process at the latest.
  const script = '"$@" && echo mounted && exec cat';
  const holder = spawn('unshare', ['--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', ...mount]);
  const problem = text(holder.stderr);
  const mounted = await Promise.race([once(holder.stdout, 'data'), once(holder.stdout, 'end')]);
  if (mounted.length === 0) {
    await rmdir(folder);
    throw new Error(`${NEEDED} ${await problem}`);
  }
  // The kernel shows the holder's view of the file system below its /proc entry.
  const fromOutside = join('/proc', `${holder.pid}`, 'root', folder);
  const filler = join(fromOutside, 'filler');

  return {
    folder,
    /** The same folder, for programs without the launcher. */
    fromOutside,
    /** For `startService`: makes the service see this disk. */
    launcher: ['nsenter', '--target', `${holder.pid}`, '--user', '--mount', '--preserve-credentials', '--'],
    /** Takes all space that is left; call it again to take what has become free since. */
    async fill(): Promise<void> {
      const file = await open(filler, 'a');
      try {
        // The last piece that fits is written in part.
        for (;;) await file.write(PIECE);
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== 'ENOSPC') throw cause;
      } finally {
        await file.close();
      }
    },
    free: () => rm(filler),
    /** Unmounts, as the last process in the namespace ends; only after every process that uses the disk has ended. */
    async remove(): Promise<void> {
      const ended = once(holder, 'close');
      holder.stdin.end();
      await ended;
      await rmdir(folder);
    },
  };
}
