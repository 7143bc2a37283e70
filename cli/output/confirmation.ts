import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { UsageError } from '../usage.js';

/** Asks on a terminal before `action` ("delete it"), which cannot be undone. If nobody can be asked, `--yes` must have been given. */
export async function confirm(action: string, { yes }: { readonly yes?: true | undefined }): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(
      `Nothing was done, because nobody can be asked here. Add --yes to ${action}. It cannot be undone.`,
    );
  }
  const answer = await answerTo(`Do you want to ${action}? This cannot be undone. [y/N] `);
  if (answer === undefined) process.stderr.write('\n');
  if (!/^y(es)?$/i.test(answer?.trim() ?? '')) throw new UsageError('Nothing was done.');
}

/** Undefined if Ctrl-C or Ctrl-D ends the question. Either closes the terminal, and some versions of Node.js then leave the question open. */
async function answerTo(question: string): Promise<string | undefined> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = once(terminal, 'close').then(() => undefined);
  try {
    return await Promise.race([terminal.question(question).catch(() => undefined), closed]);
  } finally {
    terminal.close();
  }
}
