import { existsSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * What the tests' support finds by its own place in the repository, for when it runs from `build/`: the service, and the
 * servers that this machine lacks.
 */
export function linkBuild(): void {
  for (const name of ['dist', 'node_modules']) {
    const expected = fileURLToPath(new URL(`../../${name}`, import.meta.url));
    if (!existsSync(expected)) symlinkSync(`../${name}`, expected);
  }
}
