import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../programs.js';

/** How a sample is run, as the comment on the line above its block says. */
export type Run =
  /** No comment: the test of the documents runs it as it stands. */
  | { readonly how: 'here' }
  /** `<!-- from: FILE -->`: it is a part of this file, which has a test of its own. */
  | { readonly how: 'from'; readonly file: string }
  /** `<!-- run by: TEST -->`: this test does the same. */
  | { readonly how: 'by'; readonly test: string }
  /** `<!-- not run: REASON -->` */
  | { readonly how: 'not'; readonly reason: string };

/** One fenced block of a document that names its language; or a comment, `<!-- ts` or `<!-- sh`: what a reader has already. */
export interface CodeBlock {
  readonly document: string;
  /** The line of the document at which the block's text begins, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  readonly run: Run;
}

const MARK = /^<!-- (from|run by|not run): (.+) -->$/;
const FENCE = /^(?:(```+)([a-z]*)|<!-- (ts|sh))$/;
/** Drawings are no samples. */
const NO_SAMPLES = ['mermaid'];

/** Every document that a user reads: all but the records of decisions and the rules. */
export function documents(): string[] {
  const names = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: ROOT });
  return names
    .toString()
    .trim()
    .split('\n')
    .filter((name) => !/^docs\/engineering\/(decisions\/|specification)/.test(name));
}

export function codeBlocks(document: string): CodeBlock[] {
  const lines = readFileSync(join(ROOT, document), 'utf8').split('\n');
  const blocks: CodeBlock[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const [opening, fence = '-->', shown, hidden] = FENCE.exec(lines[at] ?? '') ?? [];
    if (opening === undefined) continue;
    const end = lines.indexOf(fence, at + 1);
    if (end < 0) throw new Error(`${document}:${at + 1}: the block has no end`);
    const language = hidden ?? shown;
    if (language && !NO_SAMPLES.includes(language)) {
      const text = `${lines.slice(at + 1, end).join('\n')}\n`;
      blocks.push({ document, line: at + 2, language, text, run: runOf(lines, at) });
    }
    at = end;
  }
  return blocks;
}

/** An empty line between a comment and a block is usual. */
function runOf(lines: readonly string[], fenceAt: number): Run {
  const above = lines[fenceAt - 1] === '' ? lines[fenceAt - 2] : lines[fenceAt - 1];
  const [, how, what = ''] = MARK.exec(above ?? '') ?? [];
  if (how === 'from') return { how, file: what };
  if (how === 'run by') return { how: 'by', test: what };
  if (how === 'not run') return { how: 'not', reason: what };
  return { how: 'here' };
}

/** True if the lines stand in the file one after the other, with any indent. */
export function isPartOf(file: string, text: string): boolean {
  const bare = (whole: string) => whole.split('\n').map((line) => line.trim());
  const wanted = bare(text.trim()).join('\n');
  return `\n${bare(file).join('\n')}\n`.includes(`\n${wanted}\n`);
}
