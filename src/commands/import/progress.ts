import type { SingleBar } from 'cli-progress';
import type { ImportState } from './import-state.js';

const SECOND_MS = 1_000;

export interface Progress {
  update(state: ImportState): void;
  stop(): void;
}

/** A bar on a terminal, with the rate of this run and the time left, and nothing elsewhere. `bytes`: undefined for a pipe. */
export async function showProgress(bytes: number | undefined, start: ImportState): Promise<Progress> {
  if (!process.stderr.isTTY) return { update() {}, stop() {} };
  const { SingleBar } = await import('cli-progress');
  const format =
    bytes === undefined
      ? 'Line {line} · {created} created · {rejected} rejected · {rate} rows/s'
      : '{bar} {percentage}% · {created} created · {rejected} rejected · {rate} rows/s · {left} left';
  const bar: SingleBar = new SingleBar({
    format,
    stream: process.stderr,
    barCompleteChar: '#',
    barIncompleteChar: '.',
    barsize: 24,
    hideCursor: true,
    clearOnComplete: true,
  });
  const startedAt = performance.now();
  bar.start(bytes ?? 1, start.offset, shown(start));

  function shown(state: ImportState): object {
    const seconds = (performance.now() - startedAt) / SECOND_MS;
    const read = state.offset - start.offset;
    const rows = state.created + state.rejected - start.created - start.rejected;
    const { line, created, rejected } = state;
    const left = bytes !== undefined && read > 0 ? duration((seconds * (bytes - state.offset)) / read) : '?';
    return { line, created, rejected, rate: seconds > 0 ? Math.round(rows / seconds) : 0, left };
  }

  return {
    update: (state) => bar.update(state.offset, shown(state)),
    stop: () => bar.stop(),
  };
}

/** Such as `1 h 05 min`, `2 min 10 s` or `9 s`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const two = (number: number) => String(number).padStart(2, '0');
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours > 0) return `${hours} h ${two(minutes)} min`;
  return minutes > 0 ? `${minutes} min ${two(whole % 60)} s` : `${whole} s`;
}
