import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { AccessSettings } from '../access/access-settings.js';
import { apiKeysIn } from '../access/key-file-edits.js';
import type { Config } from '../config.js';
import { type CertificateFiles, readCertificate } from '../http/connections/certificate-files.js';
import { type Finding, noAnswer, verdictOf } from '../platform/finding.js';
import { isLoopback, isOpenToOthers } from '../platform/loopback.js';
import { CERTIFICATE, type SettingFile } from '../platform/setting-files.js';
import { type Endpoint, endpointsIn } from '../webhooks/endpoint-file.js';

const DAY_MS = 86_400_000;
/** Time to make another one. */
const EXPIRES_SOON_MS = 14 * DAY_MS;
const ROOT = 0;
const TELLING_LEVELS = ['debug', 'trace'];

/** Findings of the settings and their files alone; `doubts` are names that are probably misspelt. */
export function examineSettings(
  config: Config,
  doubts: readonly string[],
  nowMs: number,
  userId = process.getuid?.(),
): Finding[] {
  const { access, certificateFiles } = config;
  return [
    ...doubts.map(
      (doubt): Finding => ({
        verdict: 'warning',
        what: 'a variable',
        found: doubt,
        wanted: 'names of settings',
        why: 'an ignored variable may be a misspelt setting',
      }),
    ),
    ...(userId === undefined ? [] : [judgeUser(userId)]),
    judgeAccess(access, config),
    ...(access.kind === 'required' && access.apiKeysFile !== undefined
      ? examineKeyFile(access.apiKeysFile, nowMs, access.tokens !== undefined)
      : []),
    ...(certificateFiles ? examineCertificate(certificateFiles, nowMs) : [judgeMissingTls(config)]),
    ...config.secretFiles.map(judgeSecretFile),
    ...config.authorityFiles.map((file) => judgeAuthorities(file, nowMs)),
    judgeProcessor(config),
    ...judgeAccount(config),
    judgeRetention(config),
    ...(config.webhooksFile === undefined ? [] : examineWebhooks(config.webhooksFile, access)),
    judgeLogLevel(config),
  ];
}

function judgeUser(userId: number): Finding {
  return {
    verdict: verdictOf(false, userId === ROOT),
    what: 'user',
    found: userId === ROOT ? 'root' : `id ${userId}`,
    wanted: 'the user of the service, not root',
    why: 'what root writes the service may be unable to open, and root may do more than the service should',
  };
}

function judgeAccess(access: AccessSettings, config: Config): Finding {
  const { host } = config;
  const reach = { what: 'AUTH and HOST', wanted: 'AUTH=required where others reach it' };
  if (access.kind === 'required') {
    const credentials = [access.apiKeysFile && 'API keys', access.tokens && 'tokens'].filter(Boolean).join(' and ');
    return { ...reach, verdict: 'ok', found: `required on ${host}: ${credentials}`, why: 'each caller has scopes' };
  }
  return {
    ...reach,
    verdict: verdictOf(isOpenToOthers(config), true),
    found: `none on ${host}`,
    why: 'everybody who reaches the port may pay, resolve and delete',
  };
}

function examineKeyFile(path: string, nowMs: number, hasTokens: boolean): Finding[] {
  const file = { what: 'API_KEYS_FILE' };
  try {
    const keys = apiKeysIn(path);
    const mode = statSync(path).mode & 0o777;
    const expired = keys.filter((key) => expiryOf(key) <= nowMs);
    const soon = keys.filter((key) => expiryOf(key) > nowMs && expiryOf(key) <= nowMs + EXPIRES_SOON_MS);
    const namesOf = (some: readonly { name: string }[]) => [...new Set(some.map(({ name }) => name))].join(', ');
    const parts = [
      `${keys.length - expired.length} of ${keys.length} valid`,
      ...(expired.length > 0 ? [`expired: ${namesOf(expired)}`] : []),
      ...(soon.length > 0 ? [`expire within 14 days: ${namesOf(soon)}`] : []),
    ];
    return [
      {
        ...file,
        what: 'API keys',
        verdict: verdictOf(!hasTokens && expired.length === keys.length, expired.length + soon.length > 0),
        found: parts.join('; '),
        wanted: 'valid ones only',
        why: 'an expired key is refused; npx idempay keys revoke removes it',
      },
      {
        ...file,
        verdict: verdictOf((mode & 0o002) !== 0, (mode & 0o004) !== 0),
        what: 'API_KEYS_FILE mode',
        found: mode.toString(8),
        wanted: '600, or 640',
        why: 'a user who can write it can add keys; a user who can read it sees the clients',
      },
    ];
  } catch (error) {
    return [noAnswer(file.what, (error as Error).message, 'without it the service does not start')];
  }
}

function expiryOf({ expiresAt }: { readonly expiresAt?: string }): number {
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);
}

function examineCertificate(files: CertificateFiles, nowMs: number): Finding[] {
  try {
    const certificate = new X509Certificate(readCertificate(files).cert);
    const endsAtMs = Date.parse(certificate.validTo);
    const isEarly = Date.parse(certificate.validFrom) > nowMs;
    const mode = statSync(files.keyFile).mode & 0o777;
    return [
      {
        verdict: verdictOf(isEarly || endsAtMs <= nowMs, endsAtMs <= nowMs + EXPIRES_SOON_MS),
        what: 'TLS certificate',
        found: `valid from ${certificate.validFrom} to ${certificate.validTo}`,
        wanted: 'valid for 14 days or more',
        why: 'clients refuse it outside this time',
      },
      {
        verdict: verdictOf((mode & 0o006) !== 0),
        what: 'TLS_KEY_FILE mode',
        found: mode.toString(8),
        wanted: '600, or 640',
        why: 'a user who can read the private key can impersonate this service',
      },
    ];
  } catch (error) {
    return [noAnswer('TLS certificate', (error as Error).message, 'without it the service does not start')];
  }
}

function judgeSecretFile({ name, path }: SettingFile): Finding {
  const mode = statSync(path).mode & 0o777;
  return {
    verdict: verdictOf((mode & 0o002) !== 0, (mode & 0o004) !== 0),
    what: `${name} mode`,
    found: mode.toString(8),
    wanted: '600, or 640',
    why: 'a user who can read it has the password, and a user who can write it can stop payments',
  };
}

function judgeAuthorities({ name, text }: SettingFile, nowMs: number): Finding {
  const certificates = (text.match(CERTIFICATE) ?? []).map((pem) => new X509Certificate(pem));
  const endsAtMs = Math.max(...certificates.map(({ validTo }) => Date.parse(validTo)));
  return {
    verdict: verdictOf(endsAtMs <= nowMs, endsAtMs <= nowMs + EXPIRES_SOON_MS),
    what: name,
    found: `${certificates.length} certificates, the last valid to ${new Date(endsAtMs).toISOString()}`,
    wanted: 'one that is valid for 14 days or more',
    why: 'after that time no new connection is made',
  };
}

function judgeMissingTls({ host, trustedNetworks }: Config): Finding {
  const tls = {
    what: 'TLS',
    wanted: 'TLS_CERT_FILE and TLS_KEY_FILE, or a proxy',
    why: 'keys and tokens can be read on the way',
  };
  if (trustedNetworks) return { ...tls, verdict: 'ok', found: `a proxy (TRUST_PROXY=${trustedNetworks.join(',')})` };
  if (isLoopback(host)) return { ...tls, verdict: 'ok', found: 'none, on this machine' };
  return { ...tls, verdict: 'warning', found: `none on ${host}` };
}

function judgeProcessor({ processor }: Config): Finding {
  return {
    verdict: verdictOf(false, processor.kind === 'simulated'),
    what: 'PROCESSOR_URL',
    found: processor.kind === 'http' ? 'set' : processor.isNamed ? 'simulated' : 'unset: simulated',
    wanted: 'the processor',
    why: 'a simulated payment moves no money',
  };
}

/** Only for a processor over HTTP. */
function judgeAccount({ processor }: Config): Finding[] {
  if (processor.kind !== 'http') return [];
  return [
    {
      verdict: verdictOf(false, processor.account === undefined),
      what: 'PROCESSOR_ACCOUNT',
      found: processor.account ?? 'unset: the user of PROCESSOR_URL',
      wanted: 'a name for the account at the processor',
      why: 'without it another user in PROCESSOR_URL, such as a new API key, counts as another account, and nothing under way is finished',
    },
  ];
}

function judgeRetention({ payments }: Config): Finding {
  const { retentionMs } = payments;
  return {
    verdict: 'ok',
    what: 'PAYMENT_RETENTION_DAYS',
    found: retentionMs === undefined ? 'unset: for ever' : String(retentionMs / DAY_MS),
    wanted: 'the period that your law requires',
    why: 'without it the store grows for ever',
  };
}

function examineWebhooks(path: string, access: AccessSettings): Finding[] {
  try {
    const endpoints = endpointsIn(readFileSync(path, 'utf8'));
    const mode = statSync(path).mode & 0o777;
    return [
      {
        verdict: verdictOf(false, endpoints.length === 0),
        what: 'webhooks',
        found: endpoints.map(({ name }) => name).join(', ') || 'none',
        wanted: 'the receivers of settlements',
        why: 'nobody else is told how payments ended',
      },
      ...endpoints.flatMap((endpoint) => judgeClientOf(endpoint, access)),
      {
        verdict: verdictOf((mode & 0o006) !== 0),
        what: 'WEBHOOKS_FILE mode',
        found: mode.toString(8),
        wanted: '600, or 640',
        why: 'a user who can read a secret can sign messages; a user who can write it can send them elsewhere',
      },
    ];
  } catch (error) {
    return [noAnswer('WEBHOOKS_FILE', (error as Error).message, 'without it the service does not start')];
  }
}

/** An endpoint of a client that cannot pay gets nothing, and nothing else says so. Tokens may name any client. */
function judgeClientOf({ name, client }: Endpoint, access: AccessSettings): Finding[] {
  if (client === undefined) return [];
  const finding = { verdict: 'warning', what: 'webhooks client' } as const;
  if (access.kind !== 'required') {
    const found = `${name}: ${client}, without AUTH`;
    return [
      { ...finding, found, wanted: 'no client', why: 'without AUTH no payment has a client, so it gets nothing' },
    ];
  }
  if (!client.startsWith('key:') || hasApiKey(access.apiKeysFile, client)) return [];
  const found = `${name}: ${client}, which has no API key`;
  return [
    { ...finding, found, wanted: 'a client that pays', why: 'the endpoint gets the payments of no other client' },
  ];
}

/** True also if the file cannot be read, because another finding says so. */
function hasApiKey(path: string | undefined, client: string): boolean {
  try {
    return path !== undefined && apiKeysIn(path).some(({ name }) => `key:${name}` === client);
  } catch {
    return true;
  }
}

function judgeLogLevel({ logLevel }: Config): Finding {
  return {
    verdict: verdictOf(false, TELLING_LEVELS.includes(logLevel) || logLevel === 'silent'),
    what: 'LOG_LEVEL',
    found: logLevel,
    wanted: 'info, or up to error',
    why: 'debug and trace show amounts and whole keys, silent hides alarms',
  };
}
