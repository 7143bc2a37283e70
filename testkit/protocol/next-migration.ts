import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';
import { ROOT } from '../programs.js';

export const NEXT = '0002_next.sql';
export type Mode = 'Full stop' | 'Side by side';
type Kind = 'embedded' | 'postgres';

/** A change of tables that each payment writes, such as a later version may have. */
const CHANGE: Readonly<Record<Kind, string>> = {
  embedded: 'ALTER TABLE payments ADD COLUMN note TEXT; ALTER TABLE deployment ADD COLUMN note TEXT',
  postgres: 'ALTER TABLE idempay.payments ADD COLUMN note text; ALTER TABLE idempay.deployment ADD COLUMN note text',
};

/** The migrations of this version in a folder with one of the next, until the test ends. `more`: statements after its change. */
export async function nextMigrations(
  { DATA_DIR }: Readonly<Record<string, string>>,
  mode: Mode = 'Full stop',
  more = '',
): Promise<URL> {
  const kind = DATA_DIR === undefined ? 'postgres' : 'embedded';
  const folder = await mkdtemp(join(tmpdir(), 'idempay-migrations-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(join(ROOT, 'src', 'stores', kind, 'migrations'), folder, { recursive: true });
  await writeFile(join(folder, NEXT), `-- ${mode}: for a test.\n${CHANGE[kind]};\n${more}`);
  return pathToFileURL(`${folder}/`);
}
