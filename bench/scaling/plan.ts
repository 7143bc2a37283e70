// The needs of this number of payments a second, by the model: its costs, multiplied.
import { roundedTable } from '../statistics.js';
import type { CellName, Model, Topology } from './measures.js';

/** For each payment with a processor over HTTP, what its client and others ask besides. */
const MIX = {
  'generate-key': 1,
  'first payment, two commits': 1,
  repeat: 0.1,
  'read by id, hit': 1,
  'list, 304': 1,
};
/** The share of a processor's time that may be in use: above it, requests wait for one another. */
const BUSY = 0.6;
const DAY_SECONDS = 86_400;
/** As `npm run bench -- growth` measures them with ten million. */
const BYTES = { row: 337, key: 312, keyOnDisk: 184 };
const [MEGA, GIGA] = [1e6, 1e9];

/** With one Redis master as long as it is enough, else with a Cluster. */
export function planFor(rate: number, { distributed, cluster }: Model): string {
  const allOf = ({ costs }: Topology, cell: CellName) =>
    Object.entries(MIX).reduce((sum, [operation, times]) => sum + rate * times * (costs[operation]?.[cell] ?? 0), 0);
  const model = allOf(distributed, 'redisUs') / 1e6 > BUSY ? cluster : distributed;
  const all = (cell: CellName) => allOf(model, cell);
  const processors = (cell: CellName) => all(cell) / 1e6;
  const keys = rate * DAY_SECONDS;
  const rows = [
    ['service', 'processors', processors('serviceUs')],
    ['service', `processes at ${BUSY * 100} % of one`, Math.ceil(processors('serviceUs') / BUSY)],
    ['Redis', 'processors', processors('redisUs')],
    ['Redis', `masters at ${BUSY * 100} % of one`, Math.ceil(processors('redisUs') / BUSY)],
    ['Redis', 'calls a second', all('redisCalls')],
    ['Redis', 'MB a second, both ways', all('redisBytes') / MEGA],
    ['Redis', 'GB of memory for keys that live for a day', (keys * BYTES.key) / GIGA],
    ['Redis', 'GB on the disk for them', (keys * BYTES.keyOnDisk) / GIGA],
    ['PostgreSQL', 'processors', processors('postgresUs')],
    ['PostgreSQL', 'commits a second, in batches', all('commits')],
    ['PostgreSQL', 'MB of log a second', all('walBytes') / MEGA],
    ['PostgreSQL', 'MB a second, both ways', all('postgresBytes') / MEGA],
    ['PostgreSQL', 'GB of rows and indexes a day', (keys * BYTES.row) / GIGA],
    ['PostgreSQL', 'GB of log a day', (all('walBytes') * DAY_SECONDS) / GIGA],
    ['HTTP', 'MB a second, both ways', all('httpBytes') / MEGA],
  ];
  return roundedTable(['part', 'what', `${rate.toLocaleString('en')} payments a second`], rows);
}
