import { createReadStream, realpathSync, statSync } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { UsageError } from '#idempay/cli/usage.js';

/** Large enough that reading takes no time next to the rest. */
const CHUNK_BYTES = 256 * 1024;

/** The input of an import. It can be read several times. */
export interface Input {
  /** Without symbolic links, so that a file has one state, whatever names lead to it. Undefined for a pipe. */
  readonly path: string | undefined;
  readonly bytes: number;
  read(): AsyncIterable<Buffer>;
  /** Throws UsageError if the file was written to since it was opened. */
  refuseChange(): Promise<void>;
  close(): Promise<void>;
}

/** `-` is standard input. */
export async function openInput(file: string): Promise<Input> {
  const isFile = file !== '-' && statSync(file).isFile();
  const handle = isFile ? await open(file) : await copyOf(file === '-' ? process.stdin : createReadStream(file));
  const { size, mtimeMs } = await handle.stat();
  return {
    path: isFile ? realpathSync(file) : undefined,
    bytes: size,
    read: () => handle.createReadStream({ start: 0, autoClose: false, highWaterMark: CHUNK_BYTES }),
    async refuseChange() {
      const now = await handle.stat();
      if (now.size !== size || now.mtimeMs !== mtimeMs) {
        throw new UsageError(
          `${file} was written to while it was imported. Put it back as it was, and run the same command again.`,
        );
      }
    },
    close: () => handle.close(),
  };
}

/** In a file without a name, which is gone with this process. */
async function copyOf(pipe: Readable): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-import-')).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `${tmpdir()} cannot be written (${error.code}), and a copy of the input is kept there. Set TMPDIR to a folder that you may write to.`,
    );
  });
  try {
    const handle = await open(join(folder, 'input'), 'wx+', 0o600);
    await writeFile(handle, pipe);
    return handle;
  } finally {
    await rm(folder, { recursive: true });
  }
}
