// Writes docs/reference/settings.md from .env.example, and docs/reference/endpoints.md from the description that the service serves. A test
// of the documents fails if they differ; a test of the process holds .env.example against the settings that the service reads.
//   npm run --silent build && node scripts/make-reference.mjs
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** Markdown of every setting, in the order of `.env.example`. */
export function settingsPage() {
  const [introduction, ...blocks] = readFileSync(join(ROOT, '.env.example'), 'utf8').trim().split('\n\n');
  const sections = blocks.map(settingSection);
  const why =
    'The log warns of misspelt names (`PROCESOR_URL`, `REDIS_URI`). `npx idempay serve --help` prints the names and defaults.';
  return `${['# Settings', `${proseOf(introduction)} ${why}`, ...sections].join('\n\n')}\n`;
}

function settingSection(block) {
  const settings = [...block.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, fallback]) => ({ name, fallback }));
  const title = settings.map(({ name }) => `\`${name}\``).join(', ');
  const fallbacks = settings.map(({ fallback }) => (fallback === '' ? 'unset' : `\`${fallback}\``)).join(', ');
  return `## ${title}\n\nDefault: ${fallbacks}. ${proseOf(block)}`;
}

/** The comment of a block, with paths of documents as links. */
function proseOf(block) {
  const lines = block.split('\n').filter((line) => line.startsWith('#'));
  const prose = lines.map((line) => line.replace(/^# ?/, '')).join('\n');
  return prose
    .replaceAll(/(?<![\w/])docs\/([\w/-]+\.md)/g, '[`docs/$1`](../$1)')
    .replaceAll(/(?<!`)\b(?=[A-Z]+_[A-Z_]+\b)([A-Z_]+)\b(?!`)/g, '`$1`');
}

/** Markdown of every endpoint, by its tag. */
export function endpointsPage() {
  const text = execFileSync(process.execPath, [join(ROOT, 'scripts/openapi.mjs'), '--all'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 24,
  });
  const { paths, components, tags } = JSON.parse(text);
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  );
  const sections = tags.flatMap(({ name }) => {
    const of = rows.filter(({ method, tags: ours }) => method !== 'head' && ours?.includes(name));
    return of.length === 0 ? [] : [`## ${name}\n\n${tableOf(of, components.parameters)}`];
  });
  const introduction =
    'Every endpoint, as `GET /openapi.json` describes it. That description has parameters, headers, statuses and error texts of each, and `/docs` shows it in a browser. A GET without side effects answers HEAD too. [`api.md`](api.md) says what a client does with each answer.';
  return `${['# Endpoints', introduction, ...sections].join('\n\n')}\n`;
}

function tableOf(rows, shared) {
  const cells = rows.map(({ method, path, summary, parameters = [], security = [] }) => {
    const query = parameters
      .map((parameter) => (parameter.$ref ? shared[parameter.$ref.split('/').at(-1)] : parameter))
      .filter((parameter) => parameter.in === 'query')
      .map(({ name }) => name);
    const scopes = security.flatMap(({ bearer = [] }) => bearer).map((scope) => `\`${scope}\``);
    const target = query.length === 0 ? path : `${path}?${query.map((name) => `${name}=`).join('&')}`;
    return `| \`${method.toUpperCase()} ${target}\` | ${summary} | ${scopes.join(' or ') || 'open'} |`;
  });
  return ['| method and path | what it does | scope |', '| --- | --- | --- |', ...cells].join('\n');
}

export const PAGES = { 'docs/reference/settings.md': settingsPage, 'docs/reference/endpoints.md': endpointsPage };

if (process.argv[1] === import.meta.filename) {
  for (const [path, make] of Object.entries(PAGES)) writeFileSync(join(ROOT, path), make());
  execFileSync('npx', ['biome', 'format', '--write', ...Object.keys(PAGES)], { cwd: ROOT, stdio: 'ignore' });
}
