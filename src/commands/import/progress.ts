import { duration } from '#idempay/cli/output/duration.js';
import { openProgressLine } from '../progress-line.js';
import type { Place } from './run-import.js';

const SECOND_MS = 1_000;

export interface Progress {
  update(place: Place): void;
  stop(): void;
}

/** The rate of this run and the time left, on a terminal. Earlier runs imported the bytes before `from`. */
export function showProgress(bytes: number, from: number): Progress {
  const line = openProgressLine();
  const startedAt = performance.now();
  let start: Pick<Place, 'offset' | 'created' | 'rejected'> = { offset: 0, created: 0, rejected: 0 };

  return {
    update(place) {
      if (place.offset <= from) start = place;
      else line.show(() => textOf(place, (performance.now() - startedAt) / SECOND_MS));
    },
    stop: line.clear,
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
