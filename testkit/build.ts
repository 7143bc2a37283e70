import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const BUILD = fileURLToPath(new URL('../scripts/build.mjs', import.meta.url));

/** Before any test, so that a file that is run by hand tests the sources as they are. It costs a second. */
export default function build(): void {
  execFileSync(process.execPath, [BUILD], { stdio: 'inherit' });
}
