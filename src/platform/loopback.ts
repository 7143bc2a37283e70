import { isIPv4 } from 'node:net';

/** True if the name or address, in brackets or not, always means this machine (RFC 6761 6.3, RFC 1122 3.2.1.3). */
export function isLoopback(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || isLoopbackAddress(name);
}

/** True if others than this machine may reach the port: at its address, or through a proxy, which may run on this machine. */
export function isOpenToOthers(settings: {
  readonly host: string;
  readonly trustedNetworks: readonly string[] | undefined;
}): boolean {
  return !isLoopback(settings.host) || settings.trustedNetworks !== undefined;
}

function isLoopbackAddress(name: string): boolean {
  return isIPv4(name) && name.startsWith('127.');
}
