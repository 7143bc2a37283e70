import { stat } from 'node:fs/promises';
import type { Clock } from '../../../platform/clock.js';

const LOOK_EVERY_MS = 5_000;

/**
 * Tells the size of the write-ahead log every few seconds. Asked of the operating system alongside the event loop, and never twice
 * at once: a disk that hangs holds one look, and nothing else.
 */
export function watchWalSize(databasePath: string, clock: Clock, tell: (bytes: number) => void): { stop(): void } {
  let stopped = false;
  let cancelNext = () => {};

  async function look(): Promise<void> {
    // There is none before the first write.
    tell(
      await stat(`${databasePath}-wal`).then(
        ({ size }) => size,
        () => 0,
      ),
    );
    if (!stopped) cancelNext = clock.after(LOOK_EVERY_MS, look);
  }

  void look();
  return {
    stop() {
      stopped = true;
      cancelNext();
    },
  };
}
