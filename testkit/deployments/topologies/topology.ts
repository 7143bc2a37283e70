/**
 * The servers that `npm run test:long -- topologies` runs the suites on, one kind at a time; alongside `npm test`, which runs on Debian's
 * servers alone.
 */
const TOPOLOGIES = ['cluster', 'sentinel', 'valkey', 'postgres-18', 'tls'] as const;

/** The one that this run is about; undefined in `npm test`. */
export const TOPOLOGY = read(process.env.IDEMPAY_TOPOLOGY);

function read(name: string | undefined): (typeof TOPOLOGIES)[number] | undefined {
  if (!name) return undefined;
  const found = TOPOLOGIES.find((each) => each === name);
  if (!found) throw new Error(`IDEMPAY_TOPOLOGY must be one of ${TOPOLOGIES.join(', ')}, not ${name}`);
  return found;
}
