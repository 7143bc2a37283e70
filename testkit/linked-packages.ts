import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './programs.js';

/** The scope of the packages that stand in this repository. */
const OWN_SCOPE = '@idempay';

/**
 * Gives a copy of the repository the packages that are installed here. They are links one by one, because a link to all of
 * `node_modules` would lead from the copy to the client of this repository, and not to its own.
 */
export function linkPackages(copy: string): void {
  const installed = join(ROOT, 'node_modules');
  const linked = join(copy, 'node_modules');
  mkdirSync(join(linked, OWN_SCOPE), { recursive: true });
  for (const name of readdirSync(installed)) {
    if (name !== OWN_SCOPE) symlinkSync(join(installed, name), join(linked, name));
  }
  for (const name of readdirSync(join(installed, OWN_SCOPE)))
    symlinkSync(join(copy, name), join(linked, OWN_SCOPE, name));
}
