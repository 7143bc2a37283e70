import { isLoopback } from '../access/access-settings.js';
import { type Finding, verdictOf } from '../platform/finding.js';

/** Whether what is sent to a store can be read on the way. `tls` says how it is protected; undefined: not at all. */
export function judgeTransport(store: string, host: string, tls: string | undefined): Finding {
  const isLocal = isLoopback(host) || host.startsWith('/');
  return {
    verdict: verdictOf(false, tls === undefined && !isLocal),
    what: `${store} TLS`,
    found: tls ?? (isLocal ? 'none, on this machine' : 'none'),
    wanted: 'TLS, unless on this machine',
    why: 'passwords and payments can be read on the way',
  };
}
