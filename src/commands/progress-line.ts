import { clearLine, cursorTo } from 'node:readline';

/** Often enough for a person, and too rarely to slow the work down. */
const SHOW_EVERY_MS = 100;

/** One line on a terminal that is written over, and nothing elsewhere. */
export interface ProgressLine {
  /** Calls `textOf` if it is time to show something else. */
  show(textOf: () => string): void;
  clear(): void;
}

export function openProgressLine(): ProgressLine {
  const terminal = process.stderr;
  if (!terminal.isTTY) return { show() {}, clear() {} };
  let shownAt = Number.NEGATIVE_INFINITY;

  function clear(): void {
    cursorTo(terminal, 0);
    clearLine(terminal, 0);
  }

  return {
    show(textOf) {
      const now = performance.now();
      if (now - shownAt < SHOW_EVERY_MS) return;
      shownAt = now;
      clear();
      terminal.write(textOf().slice(0, terminal.columns - 1));
    },
    clear,
  };
}
