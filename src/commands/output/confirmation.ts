import { createInterface } from 'node:readline/promises';
import { UsageError } from '../usage.js';

/** Asks on a terminal before what cannot be undone. Where nobody can be asked, `--yes` must have been said. */
export async function confirm(what: string, { yes }: { readonly yes?: true | undefined }): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(`${what} This cannot be undone: add --yes where nobody can be asked. Nothing was done.`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${what} This cannot be undone. Go on? [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('Nothing was done.');
  } finally {
    terminal.close();
  }
}
