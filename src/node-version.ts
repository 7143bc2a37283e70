/** The same as `engines` in package.json. Written for old versions of Node, and so in an old syntax. */
const LEAST_VERSION = [20, 19, 0];

/** A sentence for the person who started the service on a Node that is too old; undefined when it is new enough. */
export function refusalOfNode(version: string): string | undefined {
  const parts = version.split('.').map(Number);
  for (let index = 0; index < LEAST_VERSION.length; index += 1) {
    const part = Number(parts[index]);
    const least = Number(LEAST_VERSION[index]);
    if (part > least) return undefined;
    if (part < least)
      return `Idempay needs Node.js ${LEAST_VERSION.join('.')} or newer; this is ${version}. Install a newer one.`;
  }
  return undefined;
}
