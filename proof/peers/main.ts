// `npm run peers`: the same duplicates, crashes, lost replies and absences of Redis for this service and for small servers
// made with other libraries, in front of the same reference processor, whose charge log is the judge.
//
//   PEERS_SEED   of every choice, printed      PEERS_ONLY  only servers whose name contains one of these, comma-separated
import { symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { seededRandom, seedFrom } from '../../test/support/random.js';
import { expressIdempotency } from './adapters/express-idempotency.js';
import { idempayDistributed, idempayEmbedded } from './adapters/idempay.js';
import { nodeIdempotency } from './adapters/node-idempotency.js';
import { powertools } from './adapters/powertools.js';
import { report } from './report.js';
import { runTrial, type Trial } from './trial.js';

const PEERS = [idempayDistributed, idempayEmbedded, nodeIdempotency, expressIdempotency, powertools];

linkLikeTheRoot('dist');
linkLikeTheRoot('node_modules');
const wanted = (process.env.PEERS_ONLY ?? '').split(',');
const peers = PEERS.filter(({ name }) => wanted.some((part) => name.includes(part)));
const seed = seedFrom('PEERS_SEED');
const trials: Trial[] = [];
for (const peer of peers) {
  console.log(`${peer.name}: ${peer.about}`);
  for (const deduplicates of [false, true]) {
    const trial = await runTrial(peer, deduplicates, seededRandom(seed));
    trials.push(trial);
    const seconds = Math.round(trial.tookMs / 1_000);
    console.log(`  processor ${deduplicates ? 'deduplicates' : 'does not deduplicate'}: ${seconds} s`);
    if (trial.deaths > 0) console.log(`  ended by itself ${trial.deaths} times, at last with\n${trial.lastWords}`);
  }
}
console.log(`\n${report(trials)}`);

/** The helpers of the tests find the built service, and unpacked servers, by their own place, which is now below `build/`. */
function linkLikeTheRoot(folder: string): void {
  const link = fileURLToPath(new URL(`../../${folder}`, import.meta.url));
  try {
    symlinkSync(`../${folder}`, link);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
