import type { Client } from 'pg';
import { type Finding, verdictOf } from '../platform/finding.js';
import { askSessionLimits, endsInTime, setUpSession } from '../stores/postgres/session.js';
import { LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '../stores/shared/time-limits.js';

/**
 * Sets up two sessions as the service does, then asks what counts in the first. A pooler that gives each transaction another session has
 * let the second replace what the first has set.
 */
export async function examineSessions(connect: () => Promise<Client>, limitMs: number): Promise<Finding[]> {
  const clients: Client[] = [];
  try {
    const first = await connect();
    clients.push(first);
    const { mark } = await setUpSession(first, limitMs);
    const second = await connect();
    clients.push(second);
    await setUpSession(second, limitMs);
    const limits = await askSessionLimits(first, mark);
    const { statementTimeoutMs, lockTimeoutMs, isAnother } = limits;
    const found = (ms: number) => {
      return `${ms === 0 ? 'none' : `${ms} ms`}${isAnother ? ', and a pooler loses settings of a session' : ''}`;
    };
    const advice = isAnother ? ', set for the user with ALTER ROLE' : '';
    return [
      {
        verdict: verdictOf(!endsInTime(limits)),
        what: 'PostgreSQL statement_timeout',
        found: found(statementTimeoutMs),
        wanted: `at most ${STATEMENT_TIMEOUT_MS} ms${advice}`,
        why: 'a change that is committed later is hidden by the cache; without it nothing may be changed',
      },
      {
        verdict: verdictOf(false, lockTimeoutMs === 0 || lockTimeoutMs > LOCK_TIMEOUT_MS),
        what: 'PostgreSQL lock_timeout',
        found: found(lockTimeoutMs),
        wanted: `at most ${LOCK_TIMEOUT_MS} ms${advice}`,
        why: 'without it one row that another session blocks fails the payments that came with it',
      },
    ];
  } finally {
    // Does not wait: a server that hangs would not close its side.
    for (const client of clients) client.end().catch(() => {});
  }
}
