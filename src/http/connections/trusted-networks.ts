import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

export const TRUSTED_NETWORKS_FORM =
  'addresses or networks, separated by commas: 10.0.0.0/8,fd00::/8. A network of every address (/0) trusts everybody';

/** The proxies whose X-Forwarded-For counts. Undefined if one is not an address or a network, or is all of them. */
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

/** `203.0.113.7:1001` and `[2001:db8::7]:1001`, as some proxies write it, and `[2001:db8::7]`: each port would be another client. */
const ADDRESS_WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/;

/**
 * The origin of requests: the connection's address or, behind trusted proxies, the last address of X-Forwarded-For that is none of theirs.
 * Text that is no address proves nothing, and neither does the text in front of it: the request counts as the proxy's that named it.
 */
export function createAddressOf(trustedNetworks: readonly string[] | undefined): (request: IncomingMessage) => string {
  const trusted = new BlockList();
  for (const network of trustedNetworks ?? []) {
    const [address = '', prefix] = network.split('/');
    if (prefix === undefined) trusted.addAddress(address, familyOf(address));
    else trusted.addSubnet(address, Number(prefix), familyOf(address));
  }
  const ofConnection = ({ socket }: IncomingMessage) => socket.remoteAddress ?? '';
  if (!trustedNetworks) return ofConnection;

  return (request) => {
    let address = ofConnection(request);
    const named = namesIn(request.headers['x-forwarded-for']);
    while (isIP(address) !== 0 && trusted.check(address, familyOf(address))) {
      const before = addressIn(named.pop() ?? '');
      if (before === undefined) break;
      address = before;
    }
    return address;
  };
}

/** A list may have empty elements (RFC 9110 5.6.1). */
function namesIn(header: string | string[] | undefined): string[] {
  return String(header ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

/** Without port, brackets and zone. */
function addressIn(entry: string): string | undefined {
  const [, bracketed, plain] = ADDRESS_WITH_PORT.exec(entry) ?? [];
  const [address = ''] = (bracketed ?? plain ?? entry).split('%');
  return isIP(address) === 0 ? undefined : address;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
