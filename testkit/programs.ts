import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository, from here or from the folder into which `proof/tsconfig.json` compiles this file; nothing has to be built yet. */
export const ROOT = fileURLToPath(import.meta.url).replace(/[/\\](build[/\\])?testkit[/\\]programs\.[jt]s$/, '');
export const SERVICE = join(ROOT, 'dist', 'main.js');
export const REFERENCE_PROCESSOR = join(ROOT, 'dist', 'reference-processor', 'main.js');
