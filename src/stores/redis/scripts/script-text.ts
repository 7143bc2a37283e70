import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

/** What a server is taught and asked to run. */
export interface ScriptText {
  readonly name: string;
  readonly text: string;
  /** Names the text for EVALSHA. */
  readonly digest: string;
}

const FOLDER = new URL('./', import.meta.url);
const ENDING = '.lua';

export function readScript(name: string): ScriptText {
  const text = [
    read('batch/helpers'),
    `local function run(KEYS, ARGV)\n${read(name)}\nend`,
    read('batch/each-call'),
  ].join('\n');
  return { name, text, digest: createHash('sha1').update(text).digest('hex') };
}

export function readScripts(): ScriptText[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(ENDING));
  return files.map((file) => readScript(file.slice(0, -ENDING.length)));
}

function read(name: string): string {
  return readFileSync(new URL(`${name}${ENDING}`, FOLDER), 'utf8');
}
