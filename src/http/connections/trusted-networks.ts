import { isIP } from 'node:net';

export const TRUSTED_NETWORKS_FORM =
  'addresses or networks, separated by commas: 10.0.0.0/8,fd00::/8. A network of every address (/0) trusts everybody';

/** The proxies whose X-Forwarded-For counts. Undefined where one is not an address or a network, or is all of them. */
export function readTrustedNetworks(text: string): readonly string[] | undefined {
  const networks = text.split(',').map((network) => network.trim());
  return networks.every(isNetwork) ? networks : undefined;
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || address.includes('%') || rest.length > 0) return false;
  if (prefix === undefined) return true;
  return /^[1-9]\d{0,2}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128);
}
