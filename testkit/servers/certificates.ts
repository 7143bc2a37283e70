import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The password of the users who need TLS. It has characters that a URL must escape, so that they are tested too. */
export const PASSWORD = 'p@ss:w/rd#1';

/** Files of a certificate authority of the test's own, and of server certificates that it signed for this machine: one is valid, one has expired. */
export async function makeCertificates() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-tls-'));
  const openssl = (parameters: string, ...subject: string[]) =>
    run('openssl', [...parameters.split(' '), ...subject], { cwd: folder }).catch((cause) => {
      throw new Error('openssl is needed for the tests of TLS: apt-get install openssl', { cause });
    });
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';
  await openssl(`req -x509 ${key} -keyout ca.key -out ca.pem -days 2 -subj`, '/CN=test authority');
  await openssl(`req ${key} -keyout server.key -out server.csr -subj`, '/CN=idempay test server');
  await writeFile(join(folder, 'names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  const signed = '-CA ca.pem -CAkey ca.key -CAcreateserial -extfile names';
  await openssl(`x509 -req -in server.csr ${signed} -out server.pem -days 2`);
  await openssl(`x509 -req -in server.csr ${signed} -out expired.pem -days 0`);
  return { ...certificatesIn(folder), remove: () => rm(folder, { recursive: true, force: true }) };
}

export function certificatesIn(folder: string) {
  const file = (name: string) => join(folder, name);
  return {
    folder,
    authority: file('ca.pem'),
    certificate: file('server.pem'),
    expired: file('expired.pem'),
    key: file('server.key'),
  };
}

export function tlsSettings(port: number, { authority, certificate, key }: ReturnType<typeof certificatesIn>) {
  return [
    ...['--tls-port', `${port}`, '--tls-cert-file', certificate, '--tls-key-file', key],
    ...['--tls-ca-cert-file', authority, '--tls-auth-clients', 'no'],
  ];
}
