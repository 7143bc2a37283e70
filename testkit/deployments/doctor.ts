import { expect } from 'vitest';
import { examineFolder, examinePostgres, examineRedis } from '#idempay/doctor/stores.js';
import { type Clock, systemClock } from '#idempay/platform/clock.js';
import type { Finding } from '#idempay/platform/finding.js';
import { type RedisLocation, readRedisUrl } from '#idempay/stores/redis/connection/url.js';
import { type Environment, runToExit } from '../processes/service.js';
import { PASSWORD } from '../servers/certificates.js';

const POOL_SIZE = 10;
/** The settings of a service without any. */
const UNSET = { processors: ['simulated'], access: 'none' } as const;

/** Runs `idempay doctor`, which prints no credentials and no stack, whatever it finds. */
export async function runDoctor(environment: Environment) {
  const { code, output } = await runToExit(environment, { parameters: ['doctor'] });
  const lines = output.trimEnd().split('\n');
  const rows = lines.filter((line) => /^(ok|warning|wrong) /.test(line));
  const wrong = rows.filter((line) => line.startsWith('wrong'));
  for (const secret of [PASSWORD, encodeURIComponent(PASSWORD)]) expect(output).not.toContain(secret);
  expect(output, 'a stack').not.toMatch(/^\s+at /m);
  return { code, wrong, rows, last: lines.at(-1) };
}

export const findingsOfRedis = (url: string, clock: Clock = systemClock) =>
  examineRedis(readRedisUrl(url) as RedisLocation, clock);

export const findingsOfPostgres = (url: string, { poolSize = POOL_SIZE, clock = systemClock } = {}) =>
  examinePostgres(url, poolSize, UNSET, clock);

export const findingsOfFolder = (dataDir: string) => examineFolder(dataDir, UNSET);

export const verdictsOf = (findings: readonly Finding[]) =>
  Object.fromEntries(findings.map(({ what, verdict }) => [what, verdict]));

export const rowOf = (findings: readonly Finding[], what: string) => findings.find((finding) => finding.what === what);
