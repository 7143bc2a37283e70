import { setTimeout as delay } from 'node:timers/promises';
import { type Finding, warningsIn } from '../../../platform/finding.js';
import { examine } from '../../shared/checks.js';
import { ASKED_AT_START, REDIS_ROLE } from './checks.js';
import { findServers, firstAnswer } from './servers.js';
import type { RedisLocation, RedisNode } from './url.js';
import { visit, wrongRedis } from './visit.js';

/** A failover makes a replica the master within this time; after it a replica is a wrong setting. */
const REPLICA_PATIENCE_MS = 3_000;
const TRY_AGAIN_MS = 500;

/**
 * Visits the servers of `REDIS_URL`. Throws CannotOpen when one is there and the setting cannot be right: its database,
 * user, password, TLS or topology. A server that is down may come later, so nothing is said of it. Takes some seconds at
 * most. In a Cluster one master that answers is enough.
 */
export async function refuseWrongRedis(location: RedisLocation, warn: (sentence: string) => void): Promise<void> {
  const found = await findServers(location);
  const { answer, refusals } = await firstAnswer(found.servers.map((server) => lookAt(server, location)));
  const [refusal] = [...found.refusals, ...refusals];
  if (!answer && refusal) throw refusal;
  for (const sentence of warningsIn(answer ?? [])) warn(sentence);
}

/** Throws when the server cannot be the one that the URL describes. */
async function lookAt(node: RedisNode, location: RedisLocation): Promise<readonly Finding[] | undefined> {
  const startedAt = performance.now();
  for (;;) {
    const findings = await visit(node, location, (visited) => examine(ASKED_AT_START, visited));
    const wrong = findings?.find(({ verdict, advice }) => verdict === 'wrong' && advice !== undefined);
    if (!wrong) return findings;
    const mayPass = wrong.what === REDIS_ROLE && performance.now() - startedAt < REPLICA_PATIENCE_MS;
    if (!mayPass) throw wrongRedis(node, wrong.found, wrong.advice ?? '');
    await delay(TRY_AGAIN_MS);
  }
}
