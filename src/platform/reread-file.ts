import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { startRereading } from './rereading.js';

export interface RereadFile<Content> {
  /** The last valid content of the file. */
  readonly current: Content;
  close(): void;
}

/**
 * Reads a file, again every second. It compares the text, because file times are too coarse and a mounted secret changes by a link. Throws at
 * the start if the file cannot be read or used. Later the last valid content stays in use, and `onProblem` is called once for each problem,
 * also if a read does not end.
 */
export function openRereadFile<Content>(
  path: string,
  /** Throws if the text cannot be used. */
  read: (text: string) => Content,
  onProblem: (problem: string) => void,
): RereadFile<Content> {
  let text = readFileSync(path, 'utf8');
  let current = read(text);
  let lastProblem: string | undefined;

  async function readAgain(): Promise<void> {
    try {
      const found = await readFile(path, 'utf8');
      if (found !== text) {
        current = read(found);
        text = found;
      }
      lastProblem = undefined;
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== lastProblem) onProblem(problem);
      lastProblem = problem;
    }
  }

  return {
    get current() {
      return current;
    },
    close: startRereading(readAgain, onProblem),
  };
}
