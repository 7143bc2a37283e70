// `npm run peers`: the same duplicates, crashes, lost replies and absences of Redis for this service and for small servers
// made with other libraries, in front of the same reference processor, whose charge log is the judge.
//
//   PEERS_SEED   of every choice, printed      PEERS_ONLY  only servers whose name contains one of these, comma-separated
//
// Exit code 1 when this service charged a key twice or told two results for one, 2 when it could not be run, 130 when
// somebody stopped it: then what has ended is told.
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { expressIdempotency } from './adapters/express-idempotency.js';
import { idempayDistributed, idempayEmbedded } from './adapters/idempay.js';
import { nodeIdempotency } from './adapters/node-idempotency.js';
import { powertools } from './adapters/powertools.js';
import type { Peer } from './peer.js';
import { report } from './report.js';
import { runTrial, type Trial } from './trial.js';

const OURS: readonly Peer[] = [idempayDistributed, idempayEmbedded];
const PEERS: readonly Peer[] = [...OURS, nodeIdempotency, expressIdempotency, powertools];

class NoSuchServer extends Error {}

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
const trials: Trial[] = [];
try {
  await runTrials(chosen(process.env.PEERS_ONLY ?? ''));
  if (trials.some(isBroken)) process.exitCode = 1;
} catch (fault) {
  console.error(stop.signal.aborted ? 'interrupted' : fault instanceof NoSuchServer ? fault.message : fault);
  process.exitCode = stop.signal.aborted ? 130 : 2;
}
if (trials.length > 0) console.log(`\n${report(trials)}`);
// What an interrupted scenario still waits for would keep us alive.
process.exit();

async function runTrials(peers: readonly Peer[]): Promise<void> {
  const seed = seedFrom('PEERS_SEED');
  for (const peer of peers) {
    console.log(`${peer.name}: ${peer.about}`);
    for (const deduplicates of [false, true]) {
      const trial = await runTrial(peer, deduplicates, seededRandom(seed), stop.signal);
      trials.push(trial);
      const seconds = Math.round(trial.tookMs / 1_000);
      console.log(`  processor ${deduplicates ? 'deduplicates' : 'does not deduplicate'}: ${seconds} s`);
      if (trial.deaths > 0) console.log(`  ended by itself ${trial.deaths} times, at last with\n${trial.lastWords}`);
    }
  }
}

/** Throws with a sentence for whoever typed it. */
function chosen(text: string): readonly Peer[] {
  const parts = text.split(',').map((part) => part.trim());
  const unknown = parts.filter((part) => !PEERS.some(({ name }) => name.includes(part)));
  if (unknown.length > 0) {
    const names = PEERS.map(({ name }) => `"${name}"`).join(', ');
    throw new NoSuchServer(`PEERS_ONLY: no server has "${unknown.join('" or "')}" in its name; there are ${names}`);
  }
  return PEERS.filter(({ name }) => parts.some((part) => name.includes(part)));
}

/** What this service promises; of the others it is only told. */
function isBroken({ peer, chargedTwice, twoReceipts }: Trial): boolean {
  return OURS.includes(peer) && (twoReceipts > 0 || [...chargedTwice.values()].some((keys) => keys > 0));
}
