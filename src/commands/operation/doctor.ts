import type { OutputOptions } from '#idempay/cli/output/results.js';
import { write } from '#idempay/cli/output/terminal.js';
import { type Config, doubtsAbout, processorNames, readConfig } from '../../config.js';
import { examineProcessor } from '../../doctor/processor.js';
import { examineSettings } from '../../doctor/settings.js';
import { examineFolder, examinePostgres, examineRedis, newestCharge } from '../../doctor/stores.js';
import { examineKeySet } from '../../doctor/tokens.js';
import { systemClock } from '../../platform/clock.js';
import type { Finding, Verdict } from '../../platform/finding.js';
import type { Environment } from '../../platform/settings.js';

const HEADER = { verdict: '', what: 'what', found: 'found', wanted: 'wanted', why: 'why' } as const;
/** A longer cell pushes the rest of its own row aside, and of no other. */
const WIDTHS = { verdict: 8, what: 38, found: 44, wanted: 44 } as const;

/**
 * `idempay doctor`. Runs next to a service, too. Throws ConfigError if the settings cannot be read. Returns the exit code: 1 if something
 * is wrong. With `--json` each finding is a document on a line, and there is no sum.
 */
export async function doctor(environment: Environment, { json }: OutputOptions = {}): Promise<number> {
  const config = readConfig(environment);
  const findings = [
    ...examineSettings(config, doubtsAbout(environment), systemClock.now()),
    ...(await Promise.all([examineTokens(config), ...examineStores(config), examineProcessorOf(config)])).flat(),
  ];
  const lines = json
    ? findings.map(jsonOf)
    : [lineOf(HEADER), ...findings.map((finding) => lineOf(finding)), sumOf(findings)];
  for (const line of lines) await write(`${line}\n`);
  return findings.some(({ verdict }) => verdict === 'wrong') ? 1 : 0;
}

async function examineTokens({ access }: Config): Promise<readonly Finding[]> {
  return access.kind === 'required' && access.tokens ? [await examineKeySet(access.tokens)] : [];
}

function examineStores(config: Config): Promise<readonly Finding[]>[] {
  const { deployment } = config;
  const compared = { processors: processorNames(config), access: config.access.kind };
  switch (deployment.kind) {
    case 'embedded':
      return [examineFolder(deployment.dataDir, compared)];
    case 'distributed': {
      const { redis, databaseUrl, databasePoolSize } = deployment;
      return [examineRedis(redis, systemClock), examinePostgres(databaseUrl, databasePoolSize, compared, systemClock)];
    }
  }
}

async function examineProcessorOf(config: Config): Promise<readonly Finding[]> {
  const { processor, deployment } = config;
  if (processor.kind !== 'http') return [];
  const [name = ''] = processorNames(config);
  return examineProcessor({ ...processor, charged: await newestCharge(deployment, name) });
}

/** Always with every member; null if it has no value. */
function jsonOf({ verdict, what, found, wanted, why, advice }: Finding): string {
  return JSON.stringify({ verdict, what, found, wanted, why, advice: advice ?? null });
}

function lineOf(row: Readonly<Record<keyof typeof HEADER, string>>): string {
  const cells = (['verdict', 'what', 'found', 'wanted'] as const).map((name) => row[name].padEnd(WIDTHS[name]));
  return [...cells, row.why].join('  ');
}

function sumOf(findings: readonly Finding[]): string {
  const count = (verdict: Verdict) => findings.filter((finding) => finding.verdict === verdict).length;
  const warnings = count('warning');
  return `${count('wrong')} wrong, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}, ${count('ok')} ok.`;
}
