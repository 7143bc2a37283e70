import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Ranges that an endpoint with `private` may be in, besides public addresses. */
const PRIVATE = new Set(['loopback', 'linkLocal', 'private', 'uniqueLocal', 'carrierGradeNat']);
/** Addresses at which a cloud gives a machine its own data and credentials. No receiver is there. */
const METADATA = new Set([
  ...['169.254.169.254', '169.254.170.2', '169.254.170.23', '100.100.100.200'],
  ...['fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254'],
]);
/** Global addresses of IPv6 are in 2000::/3. Others without a range of their own may have an address of IPv4 in them (`::7f00:1`). */
const GLOBAL: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3];
/** NAT64 carries to the address of IPv4 in its last four bytes (RFC 6052). Other prefixes have it in other places. */
const NAT64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('64:ff9b::'), 96];
const IPV4_BYTES = 4;

/**
 * Why no connection may be made to this address, or undefined if one may. `isPrivate`: the endpoint may have an address that is not public.
 */
export function refusalOfAddress(address: string, isPrivate: boolean): string | undefined {
  if (isIP(address) === 0) return 'it is no address';
  const found = carriedTo(ipaddr.process(address));
  const range =
    found instanceof ipaddr.IPv6 && found.range() === 'unicast' && !found.match(GLOBAL) ? 'reserved' : found.range();
  if (METADATA.has(found.toString())) return 'it is a metadata address';
  if (range === 'unicast') return undefined;
  if (!PRIVATE.has(range)) return `it is ${range}`;
  return isPrivate ? undefined : `it is ${range}, and the endpoint has no "private": true`;
}

/** Loopback, as a connection without TLS needs it. */
export function isLoopbackAddress(address: string): boolean {
  return isIP(address) !== 0 && ipaddr.process(address).range() === 'loopback';
}

function carriedTo(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  if (!(address instanceof ipaddr.IPv6) || !address.match(NAT64)) return address;
  return ipaddr.fromByteArray(address.toByteArray().slice(-IPV4_BYTES));
}
