import { clearLine, cursorTo } from 'node:readline';
import { duration } from '#idempay/cli/output/duration.js';
import type { Place } from './run-import.js';

const SECOND_MS = 1_000;
/** Often enough for a person, and too rarely to slow the import down. */
const SHOW_EVERY_MS = 100;

export interface Progress {
  update(place: Place): void;
  stop(): void;
}

/**
 * One line on a terminal, with the rate of this run and the time left, and nothing elsewhere. Earlier runs imported the bytes before
 * `from`.
 */
export function showProgress(bytes: number, from: number): Progress {
  const terminal = process.stderr;
  if (!terminal.isTTY) return { update() {}, stop() {} };
  const startedAt = performance.now();
  let start: Place = { offset: 0, line: 1, created: 0, rejected: 0 };
  let shownAt = Number.NEGATIVE_INFINITY;

  function clear(): void {
    cursorTo(terminal, 0);
    clearLine(terminal, 0);
  }

  return {
    update(place) {
      if (place.offset <= from) {
        start = place;
        return;
      }
      const now = performance.now();
      if (now - shownAt < SHOW_EVERY_MS) return;
      shownAt = now;
      clear();
      terminal.write(textOf(place, (now - startedAt) / SECOND_MS).slice(0, terminal.columns - 1));
    },
    stop: clear,
  };

  function textOf(place: Place, seconds: number): string {
    const read = place.offset - start.offset;
    const rows = place.created + place.rejected - start.created - start.rejected;
    const rate = seconds > 0 ? Math.round(rows / seconds) : 0;
    const done = `${place.created} created · ${place.rejected} rejected · ${rate} rows/s`;
    const left = read > 0 ? duration((seconds * (bytes - place.offset)) / read) : '?';
    return `${Math.floor((100 * place.offset) / Math.max(1, bytes))}% · ${done} · ${left} left`;
  }
}
