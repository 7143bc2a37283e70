import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { FastifyBaseLogger } from 'fastify';
import { startRereading } from '../../platform/rereading.js';

/** PEM files: the certificate with the chain behind it, and its private key. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The files cannot be used. The message names the setting and holds nothing of the key. */
export class CertificateError extends Error {
  override readonly name = 'CertificateError';
}

/** Throws CertificateError. */
export function readCertificate({ certFile, keyFile }: CertificateFiles): CertificatePair {
  const pair = {
    cert: orRefuse('TLS_CERT_FILE cannot be read', () => readFileSync(certFile, 'utf8')),
    key: orRefuse('TLS_KEY_FILE cannot be read', () => readFileSync(keyFile, 'utf8')),
  };
  checkPair(pair);
  return pair;
}

/**
 * Reads the files again every second and compares their content, because the times of a file are too coarse, and a secret that
 * is mounted changes by a link. `use` gets each new pair that is good. Until then the last good one stays, and the log says
 * why, once for each problem. The function that it returns ends this.
 */
export function followCertificate(
  { certFile, keyFile }: CertificateFiles,
  inUse: CertificatePair,
  use: (pair: CertificatePair) => void,
  log: Pick<FastifyBaseLogger, 'info' | 'error'>,
): () => void {
  let current = inUse;
  let lastProblem: string | undefined;

  async function readAgain(): Promise<void> {
    try {
      const cert = await readFile(certFile, 'utf8');
      const key = await readFile(keyFile, 'utf8');
      if (cert !== current.cert || key !== current.key) {
        checkPair({ cert, key });
        use({ cert, key });
        current = { cert, key };
        log.info({ validTo: new X509Certificate(cert).validTo }, 'new connections get the new TLS certificate');
      }
      lastProblem = undefined;
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== lastProblem) log.error(`the TLS certificate was not replaced: ${problem}`);
      lastProblem = problem;
    }
  }

  return startRereading(readAgain, (problem) => log.error(`the TLS certificate was not replaced: ${problem}`));
}

function checkPair({ cert, key }: CertificatePair): void {
  const certificate = orRefuse('TLS_CERT_FILE is not a PEM certificate', () => new X509Certificate(cert));
  const privateKey = orRefuse('TLS_KEY_FILE is not a PEM private key without a passphrase', () =>
    createPrivateKey(key),
  );
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new CertificateError('The key in TLS_KEY_FILE does not belong to the certificate in TLS_CERT_FILE.');
  }
  // The chain too.
  orRefuse('TLS_CERT_FILE and TLS_KEY_FILE cannot be used', () => createSecureContext({ cert, key }));
}

function orRefuse<T>(sentence: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new CertificateError(`${sentence}: ${(cause as Error).message}.`, { cause });
  }
}
