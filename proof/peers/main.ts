// `npm run peers`: the same duplicates, crashes, lost replies and outages of Redis for this service and for small servers made
// with other libraries, in front of the same reference processor. Its charge log decides what was charged.
//
//   PEERS_SEED   of every choice, printed      PEERS_ONLY  only servers whose name contains one of these, by comma
//
// Exit code 1 when this service charged a key twice or gave it two results, 2 when it could not be run, 130 when it was
// interrupted: then the trials that have ended are reported.
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { idempayDistributed, idempayEmbedded } from './adapters/idempay.js';
import { expressIdempotency, nodeIdempotency, powertools } from './adapters/libraries.js';
import type { Peer } from './peer.js';
import { report } from './report.js';
import { runTrial, type Trial } from './trial.js';

const OURS: readonly Peer[] = [idempayDistributed, idempayEmbedded];
const PEERS: readonly Peer[] = [...OURS, nodeIdempotency, expressIdempotency, powertools];

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
const trials: Trial[] = [];
try {
  const peers = chosen(process.env.PEERS_ONLY ?? '');
  const seed = seedFrom('PEERS_SEED');
  for (const peer of peers) {
    console.log(`${peer.name}: ${peer.about}`);
    for (const deduplicates of [false, true]) {
      const trial = await runTrial(peer, deduplicates, seededRandom(seed), stop.signal);
      trials.push(trial);
      console.log(
        `  processor ${deduplicates ? 'deduplicates' : 'does not deduplicate'}: ${Math.round(trial.tookMs / 1_000)} s`,
      );
      if (trial.ownEnds.length > 0)
        console.log(`  ended by itself ${trial.ownEnds.length} times: ${trial.ownEnds.at(-1)}`);
    }
  }
  if (trials.some(isBroken)) process.exitCode = 1;
} catch (fault) {
  console.error(stop.signal.aborted ? 'interrupted' : fault);
  process.exitCode = stop.signal.aborted ? 130 : 2;
}
if (trials.length > 0) console.log(`\n${report(trials)}`);
// An interrupted trial leaves timers behind.
process.exit();

function chosen(text: string): readonly Peer[] {
  const parts = text.split(',').map((part) => part.trim());
  const unknown = parts.filter((part) => !PEERS.some(({ name }) => name.includes(part)));
  if (unknown.length === 0) return PEERS.filter(({ name }) => parts.some((part) => name.includes(part)));
  const names = PEERS.map(({ name }) => name).join(', ');
  throw new Error(`PEERS_ONLY: no server has "${unknown.join('" or "')}" in its name. There are: ${names}.`);
}

/** What this service promises; the other results are only reported. */
function isBroken({ peer, chargedTwice, twoReceipts }: Trial): boolean {
  return OURS.includes(peer) && (twoReceipts > 0 || [...chargedTwice.values()].some((keys) => keys > 0));
}
