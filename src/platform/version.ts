import { readFileSync } from 'node:fs';

/** Of package.json, which lies beside `dist`. */
export const VERSION: string = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;
