import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A file system of a few megabytes, in memory, that a test can fill up without harm to the machine. */
export interface SmallDisk {
  /** Its folder as a service started through `launcher` sees it. */
  readonly folder: string;
  /** For `startService`: makes the service see this disk. Empty where everybody sees it. */
  readonly launcher: readonly string[];
  /** Takes all space that is left; call it again to take what has become free since. */
  fill(): Promise<void>;
  /** Gives the space back. */
  free(): Promise<void>;
  /** Unmounts; only after every process that uses the disk has ended. */
  remove(): Promise<void>;
}

/**
 * Mounts a small disk: directly as root, else in a mount namespace of its own, held by a process that lives as long as
 * the disk. Throws a sentence that says what is needed where the machine allows neither.
 */
export async function mountSmallDisk(megabytes: number): Promise<SmallDisk> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-disk-'));
  const options = ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder];
  const refused = await run('mount', options).then(
    () => undefined,
    (cause: Error) => cause.message.trim(),
  );
  if (refused === undefined) {
    return { folder, launcher: [], ...filler(folder), remove: () => unmount(folder) };
  }

  try {
    const holder = await holdNamespace(options);
    const launcher = ['nsenter', '--target', `${holder.pid}`, '--user', '--mount', '--preserve-credentials', '--'];
    // The kernel shows the holder's view of the file system below its /proc entry.
    const view = join('/proc', `${holder.pid}`, 'root', folder);
    return { folder, launcher, ...filler(view), remove: () => release(holder, folder) };
  } catch (cause) {
    await rmdir(folder);
    throw new Error(
      'A test needs a small disk to fill: run it as root with CAP_SYS_ADMIN, or on a kernel that lets users make ' +
        `namespaces (util-linux, \`unshare --user --map-root-user --mount\`). mount said: ${refused}`,
      { cause },
    );
  }
}

function filler(folder: string): Pick<SmallDisk, 'fill' | 'free'> {
  const path = join(folder, 'filler');
  return {
    async fill() {
      const file = await open(path, 'a');
      try {
        // Large pieces first, then single pages for what is left.
        for (const bytes of [65_536, 4096]) await appendUntilFull(file, Buffer.alloc(bytes));
      } finally {
        await file.close();
      }
    },
    free: () => rm(path),
  };
}

async function appendUntilFull(file: Awaited<ReturnType<typeof open>>, piece: Buffer): Promise<void> {
  for (;;) {
    try {
      const { bytesWritten } = await file.write(piece);
      if (bytesWritten < piece.length) return;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ENOSPC') return;
      throw cause;
    }
  }
}

/** Starts the process that owns the namespace. It reads its standard input, so it ends with this process at the latest. */
async function holdNamespace(mountOptions: readonly string[]): Promise<ChildProcess> {
  const script = 'mount "$@" && echo mounted && exec cat';
  const holder = spawn('unshare', ['--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', ...mountOptions], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let problem = '';
  holder.stderr?.on('data', (chunk) => {
    problem += chunk;
  });
  const mounted = once(holder.stdout as NodeJS.ReadableStream, 'data');
  const ended = once(holder, 'close').then(() => {
    throw new Error(problem.trim());
  });
  await Promise.race([mounted, ended]);
  // From here on its end is expected.
  ended.catch(() => undefined);
  return holder;
}

async function unmount(folder: string): Promise<void> {
  await run('umount', [folder]);
  await rmdir(folder);
}

/** The mount goes with the last process in its namespace. */
async function release(holder: ChildProcess, folder: string): Promise<void> {
  const ended = once(holder, 'close');
  holder.stdin?.end();
  await ended;
  await rmdir(folder);
}
