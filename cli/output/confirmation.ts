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
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`Do you want to ${action}? This cannot be undone. [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('Nothing was done.');
  } finally {
    terminal.close();
  }
}
