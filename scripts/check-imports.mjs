// The arrows between the rooms of src/, and who may load which package (ARCHITECTURE.md). Imports of types count too. Prints what
// breaks the table, and every circle of files; ends with 1 then.
import { relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseCircular, parseDependencyTree } from 'dpdm';

const root = fileURLToPath(new URL('..', import.meta.url));
const FEATURES = ['payments', 'transactions', 'access', 'health', 'limits', 'live', 'webhooks'];
/** The rooms that each room may import besides itself. `platform` may be imported everywhere. */
const ROOMS = {
  platform: [],
  payments: [],
  transactions: [],
  access: [],
  limits: [],
  live: [],
  // It delivers what the feed of settlements shows.
  webhooks: ['payments', 'access'],
  // It reads and writes a key and an entry as a client would.
  health: ['payments', 'transactions'],
  http: FEATURES,
  'stores/shared': FEATURES,
  'stores/embedded': [...FEATURES, 'stores/shared'],
  'stores/postgres': [...FEATURES, 'stores/shared'],
  'stores/redis': [...FEATURES, 'stores/shared'],
  // The distributed deployment is what joins the two, and a transfer goes from the embedded one to it.
  stores: [...FEATURES, 'stores/shared', 'stores/embedded', 'stores/postgres', 'stores/redis'],
  // They implement what features, http and stores report: for the log, as measures, in traces.
  logs: [...FEATURES, 'http', 'stores/shared'],
  metrics: [...FEATURES, 'http', 'stores/shared'],
  traces: [...FEATURES, 'http'],
  // It joins the real features as `app` does, in memory: an own ledger would be the rules of the service a second time.
  testing: [...FEATURES, 'http', 'stores/embedded'],
};
/** The process, its composition, and what an operator runs: they may import every room. */
const ABOVE = new Set(['', 'doctor', 'commands']);
const PACKAGES = {
  fastify: ['http'],
  ioredis: ['stores/redis'],
  pg: ['stores/postgres', 'doctor'],
  '@photostructure/sqlite': ['stores/embedded'],
  undici: ['payments', 'webhooks'],
  standardwebhooks: ['webhooks'],
  'ipaddr.js': ['webhooks'],
  // An operator's command talks to a service as a client does; the service itself never calls one.
  '#idempay/cli': ['commands'],
  '#idempay/client': ['commands'],
  '#idempay/statements': ['commands'],
  '@opentelemetry': ['traces'],
};
/** A package that imports nothing but its own files, neither another package nor Node.js: the console has it in its page. */
const ALONE = 'statements/';
const ENTRIES = ['src/main.ts', 'src/commands/command-line.ts', 'src/testing/index.ts'];
const OTHER_ENTRIES = [
  'client/index.ts',
  'statements/index.ts',
  'cli/main.ts',
  'console/src/main.tsx',
  'reference-processor/main.ts',
];

const tree = await parseDependencyTree([...ENTRIES, ...OTHER_ENTRIES], { context: root, transform: false });
const broken = parseCircular(tree).map((circle) => `a circle: ${circle.join(' -> ')}`);
for (const [file, imports] of Object.entries(tree)) {
  if (file.startsWith(ALONE)) {
    for (const { request, id } of imports ?? [])
      if (!id?.startsWith(ALONE)) broken.push(`${file} imports ${request}: ${ALONE} may import nothing else`);
  }
  const room = roomOf(file);
  if (room === undefined || ABOVE.has(room)) continue;
  for (const { request, id } of imports ?? []) {
    const to = id === null ? undefined : roomOf(id);
    const isAllowed = to === undefined || to === room || to === 'platform' || ROOMS[room]?.includes(to);
    if (!isAllowed) broken.push(`${file} imports ${id}: ${room} may not import ${to || 'the root'}`);
    for (const [name, rooms] of Object.entries(PACKAGES)) {
      const isOf = request === name || request.startsWith(`${name}/`);
      if (isOf && !rooms.includes(room)) broken.push(`${file} imports ${request}: only ${rooms.join(' and ')} may`);
    }
  }
}
for (const line of broken) console.error(line);
if (broken.length > 0) process.exit(1);
console.log(`${Object.keys(tree).length} files: no circle, and no arrow that goes back up`);

/** Undefined outside of src/: the compiler's and Biome's own rules hold there. */
function roomOf(path) {
  const [top, ...parts] = relative(root, path.startsWith(sep) ? path : `${root}${path}`).split(sep);
  if (top !== 'src') return undefined;
  const folders = parts.slice(0, -1);
  return (folders[0] === 'stores' ? folders.slice(0, 2) : folders.slice(0, 1)).join('/');
}
