import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const { resolve } = createRequire(import.meta.url);

/** The service as it is shipped. Found through the package's own imports, from wherever this module was compiled to. */
export const SERVICE = resolve('#idempay/main.js');
export const REFERENCE_PROCESSOR = resolve('#idempay/reference-processor/main.js');
/** The repository. */
export const ROOT = join(dirname(SERVICE), '..');
