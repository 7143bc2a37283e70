import { X509Certificate } from 'node:crypto';
import { readFileSync, type Stats, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import { startRereading } from './rereading.js';

/** Far above any address, and a bundle of authorities; a path that was mixed up may name a disk. */
const LONGEST_BYTES = 1024 * 1024;
/** One certificate of a PEM file. */
export const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** A file that a setting names, and its content as it was read. */
export interface SettingFile {
  /** The setting, such as `REDIS_URL_FILE`. */
  readonly name: string;
  readonly path: string;
  readonly text: string;
}

type ReadResult = { readonly text: string } | { readonly problem: string };

/** Finds the value in the text of a file, or what is wrong with it. */
export type ValueReader = (text: string) => ReadResult;

/** The value of a secret: the text of the file without one newline at its end. A problem never quotes the text. */
export const readSecret = (path: string): ReadResult => valueIn(readText(path), secretIn);

/** Certificates of authorities in PEM form: those that a server's certificate must come from. */
export const readAuthorities = (path: string): ReadResult => valueIn(readText(path), authoritiesIn);

export function secretIn(content: string): ReadResult {
  const text = content.replace(/\n$/, '');
  if (text === '') return { problem: 'is empty' };
  if (/\r/.test(text)) return { problem: 'has line ends of Windows (CR LF): write it with one line feed, or none' };
  if (/\p{Cc}/u.test(text)) return { problem: 'has several lines, or control characters: a secret is one line' };
  // No secret has one, and settings are read without them.
  if (text !== text.trim()) return { problem: 'begins or ends with a blank: remove it' };
  return { text };
}

export function authoritiesIn(text: string): ReadResult {
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) return { problem: 'has no PEM certificate' };
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
    return { text };
  } catch (error) {
    return { problem: `has a certificate that cannot be read (${(error as Error).message})` };
  }
}

/**
 * Reads a file again each second, and compares its content, because a mounted secret changes by a link. `take` gets each new content, and
 * returns why it is not used. The log says so once for each change, and never what the file has. The function that it returns ends this.
 */
export function followFile(
  { name, path, text }: SettingFile,
  read: ValueReader,
  take: (text: string) => string | undefined,
  log: Pick<Logger, 'info' | 'error'>,
): () => void {
  let seen = text;
  let lastProblem: string | undefined;
  /** The last content of the file. It is parsed once, and not each second, because a bundle may have many certificates. */
  let last: { readonly content: string; readonly value: ReadResult } | undefined;

  async function valueNow(): Promise<ReadResult> {
    const found = await readTextAgain(path);
    if ('problem' in found) return found;
    if (found.text !== last?.content) last = { content: found.text, value: read(found.text) };
    return last.value;
  }

  async function readAgain(): Promise<void> {
    const found = await valueNow();
    if ('problem' in found) {
      if (found.problem !== lastProblem)
        log.error(`${name}: the file ${found.problem}. The previous content stays in use.`);
      lastProblem = found.problem;
      return;
    }
    lastProblem = undefined;
    if (found.text === seen) return;
    seen = found.text;
    const refusal = take(found.text);
    if (refusal === undefined) log.info(`${name}: new connections use the new content of the file`);
    else log.error(`${name}: ${refusal}. The previous content stays in use.`);
  }

  return startRereading(readAgain, (problem) => log.error(`${name}: ${problem}. The previous content stays in use.`));
}

function valueIn(found: ReadResult, read: ValueReader): ReadResult {
  return 'problem' in found ? found : read(found.text);
}

function readText(path: string): ReadResult {
  try {
    const problem = problemOf(statSync(path));
    return problem === undefined ? textIn(readFileSync(path)) : { problem };
  } catch (error) {
    return { problem: problemOfFault(error) };
  }
}

/** The same without holding up the process, because a network mount may hang. */
async function readTextAgain(path: string): Promise<ReadResult> {
  try {
    const problem = problemOf(await stat(path));
    return problem === undefined ? textIn(await readFile(path)) : { problem };
  } catch (error) {
    return { problem: problemOfFault(error) };
  }
}

function problemOf(found: Stats): string | undefined {
  if (found.isDirectory()) return 'is a folder';
  // A pipe would have to be waited for, and could not be read again.
  if (!found.isFile()) return 'is not a regular file';
  if (found.size > LONGEST_BYTES) return `is longer than ${LONGEST_BYTES} bytes`;
  return undefined;
}

function textIn(bytes: Uint8Array): ReadResult {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  if (text.startsWith('\uFEFF')) return { problem: 'begins with a byte order mark: write it as UTF-8 without one' };
  return { text };
}

function problemOfFault(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be read by this user';
  if (code?.startsWith('ERR_ENCODING')) return 'is not UTF-8 text';
  return `cannot be read (${code ?? message})`;
}
