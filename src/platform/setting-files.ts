import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Logger } from 'pino';

/** Far above any address, and a bundle of authorities; a path that was mixed up may name a disk. */
const LONGEST_BYTES = 1024 * 1024;
/** A secret that was changed is in use within this time. */
const READ_AGAIN_MS = 1_000;
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

/** The value of a secret: the text of the file without one newline at its end. A problem never quotes the text. */
export function readSecret(path: string): ReadResult {
  const read = readText(path);
  if ('problem' in read) return read;
  const text = read.text.replace(/\n$/, '');
  if (text === '') return { problem: 'is empty' };
  if (/\r/.test(text)) return { problem: 'has line ends of Windows (CR LF): write it with one line feed, or none' };
  if (/\p{Cc}/u.test(text)) return { problem: 'has several lines, or control characters: a secret is one line' };
  // No secret has one, and settings are read without them.
  if (text !== text.trim()) return { problem: 'begins or ends with a blank: remove it' };
  return { text };
}

/** Certificates of authorities in PEM form: those that a server's certificate must come from. */
export function readAuthorities(path: string): ReadResult {
  const read = readText(path);
  if ('problem' in read) return read;
  const certificates = read.text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) return { problem: 'has no PEM certificate' };
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
    return { text: read.text };
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
  read: (path: string) => ReadResult,
  take: (text: string) => string | undefined,
  log: Pick<Logger, 'info' | 'error'>,
): () => void {
  let seen = text;
  let lastProblem: string | undefined;

  function readAgain(): void {
    const found = read(path);
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

  const reading = setInterval(readAgain, READ_AGAIN_MS).unref();
  return () => clearInterval(reading);
}

function readText(path: string): ReadResult {
  try {
    const found = statSync(path);
    if (found.isDirectory()) return { problem: 'is a folder' };
    // A pipe would have to be waited for, and could not be read again.
    if (!found.isFile()) return { problem: 'is not a regular file' };
    if (found.size > LONGEST_BYTES) return { problem: `is longer than ${LONGEST_BYTES} bytes` };
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
    if (text.startsWith('\uFEFF')) return { problem: 'begins with a byte order mark: write it as UTF-8 without one' };
    return { text };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { problem: 'does not exist' };
    if (code === 'EACCES' || code === 'EPERM') return { problem: 'cannot be read by this user' };
    if (code?.startsWith('ERR_ENCODING')) return { problem: 'is not UTF-8 text' };
    return { problem: `cannot be read (${code ?? message})` };
  }
}
