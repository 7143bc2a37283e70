import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addApiKey } from '#idempay/access/key-file-edits.js';
import { doubtsAbout, readConfig } from '#idempay/config.js';
import { examineSettings } from '#idempay/doctor/settings.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { newWebhookSecret } from '../../testkit/servers/webhook-receiver.js';

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-11-22T12:00:00Z');
let folder: string;
let keys: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-doctor-'));
  keys = join(folder, 'keys.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

function rows(environment: Record<string, string>): Record<string, string> {
  const findings = examineSettings(readConfig(environment), doubtsAbout(environment), NOW);
  return Object.fromEntries(findings.map(({ what, verdict }) => [what, verdict]));
}

test('AUTH and TLS are judged by who can reach the service', () => {
  addApiKey(keys, 'shop', ['payments:write']);
  const required = { AUTH: 'required', API_KEYS_FILE: keys };
  expect(rows({})).toMatchObject({ 'AUTH and HOST': 'warning', TLS: 'ok' });
  expect(rows({ AUTH: 'none', HOST: '0.0.0.0' })).toMatchObject({ 'AUTH and HOST': 'wrong', TLS: 'warning' });
  expect(rows({ AUTH: 'none', TRUST_PROXY: '10.0.0.0/8' })).toMatchObject({ 'AUTH and HOST': 'wrong', TLS: 'ok' });
  expect(rows({ ...required, HOST: '0.0.0.0' })).toMatchObject({ 'AUTH and HOST': 'ok', TLS: 'warning' });
  expect(rows({ ...required, HOST: '::', TRUST_PROXY: '10.0.0.0/8' })).toMatchObject({
    'AUTH and HOST': 'ok',
    TLS: 'ok',
  });
});

test('root is found as the user of the service', () => {
  const userOf = (id: number) => examineSettings(readConfig({}), [], NOW, id).find(({ what }) => what === 'user');
  expect(userOf(0)).toMatchObject({ verdict: 'warning', found: 'root' });
  expect(userOf(1000)).toMatchObject({ verdict: 'ok', found: 'id 1000' });
});

test('an account that has no name of its own is a warning, if there is a processor', () => {
  const PROCESSOR_URL = 'https://shop:secret@processor.example';
  expect(rows({})).not.toHaveProperty('PROCESSOR_ACCOUNT');
  expect(rows({ PROCESSOR_URL })).toMatchObject({ PROCESSOR_ACCOUNT: 'warning' });
  expect(rows({ PROCESSOR_URL, PROCESSOR_ACCOUNT: 'main' })).toMatchObject({ PROCESSOR_ACCOUNT: 'ok' });
});

test('a key file is found that is missing, damaged, or open to others', () => {
  const required = { AUTH: 'required', API_KEYS_FILE: keys };
  expect(rows(required)).toMatchObject({ API_KEYS_FILE: 'wrong' });
  addApiKey(keys, 'shop', ['payments:write']);
  expect(rows(required)).toMatchObject({ 'API keys': 'ok', 'API_KEYS_FILE mode': 'ok' });
  chmodSync(keys, 0o644);
  expect(rows(required)).toMatchObject({ 'API_KEYS_FILE mode': 'warning' });
  chmodSync(keys, 0o666);
  expect(rows(required)).toMatchObject({ 'API_KEYS_FILE mode': 'wrong' });
  writeFileSync(keys, '{');
  expect(rows(required)).toMatchObject({ API_KEYS_FILE: 'wrong' });
});

test('keys that have expired, or soon will, are named, and are wrong when there is no other', () => {
  const required = { AUTH: 'required', API_KEYS_FILE: keys };
  addApiKey(keys, 'former', ['payments:read'], '2026-11-22T11:59:59Z');
  expect(rows(required)).toMatchObject({ 'API keys': 'wrong' });
  addApiKey(keys, 'next', ['payments:read'], '2026-12-01T00:00:00Z');
  addApiKey(keys, 'later', ['payments:read'], '2027-12-01T00:00:00Z');
  const found = examineSettings(readConfig(required), [], NOW).find(({ what }) => what === 'API keys');
  expect(found).toMatchObject({
    verdict: 'warning',
    found: '2 of 3 valid; expired: former; expire within 14 days: next',
  });
});

test('a certificate that cannot be used, ends soon, or whose key others may read is found', async () => {
  const { certificate, key, remove } = await makeCertificates();
  const tls = { TLS_CERT_FILE: certificate, TLS_KEY_FILE: key };
  const at = (nowMs: number) => examineSettings(readConfig(tls), [], nowMs).map(({ what, verdict }) => [what, verdict]);
  chmodSync(key, 0o600);
  expect(at(Date.now())).toEqual(
    expect.arrayContaining([
      // It is good for two days.
      ['TLS certificate', 'warning'],
      ['TLS_KEY_FILE mode', 'ok'],
    ]),
  );
  expect(at(Date.now() + 3 * DAY_MS)).toContainEqual(['TLS certificate', 'wrong']);
  chmodSync(key, 0o644);
  expect(at(Date.now())).toContainEqual(['TLS_KEY_FILE mode', 'wrong']);
  await remove();
  expect(rows({ TLS_CERT_FILE: keys, TLS_KEY_FILE: keys })).toMatchObject({ 'TLS certificate': 'wrong' });
});

test('a simulated processor, a telling log and a misspelt name are warnings', () => {
  expect(rows({ LOG_LEVEL: 'debug', PROCESOR_URL: 'http://processor' })).toMatchObject({
    PROCESSOR_URL: 'warning',
    LOG_LEVEL: 'warning',
    'a variable': 'warning',
  });
  expect(rows({ PROCESSOR_URL: 'http://processor' })).toMatchObject({ PROCESSOR_URL: 'ok', LOG_LEVEL: 'ok' });
});

test('an endpoint of webhooks that gets nothing is a warning: its client has no API key, or there is no AUTH', () => {
  const webhooks = join(folder, 'webhooks.json');
  const required = { AUTH: 'required', API_KEYS_FILE: keys, WEBHOOKS_FILE: webhooks };
  const endpointOf = (client?: string) => {
    const endpoint = { name: 'shop', url: 'https://shop.example/hooks', client, secrets: [newWebhookSecret()] };
    writeFileSync(webhooks, JSON.stringify([endpoint]), { mode: 0o600 });
  };
  addApiKey(keys, 'shop', ['payments:write']);
  endpointOf('key:shop');
  expect(rows(required)).not.toHaveProperty('webhooks client');
  expect(rows({ WEBHOOKS_FILE: webhooks })).toMatchObject({ webhooks: 'ok', 'webhooks client': 'warning' });
  endpointOf('key:shoop');
  expect(rows(required)).toMatchObject({ 'webhooks client': 'warning' });
  endpointOf('jwt:shoop');
  expect(rows(required)).not.toHaveProperty('webhooks client');
  endpointOf();
  expect(rows({ WEBHOOKS_FILE: webhooks })).not.toHaveProperty('webhooks client');
  endpointOf('key:shoop');
  writeFileSync(keys, '{');
  expect(rows(required)).not.toHaveProperty('webhooks client');
});
