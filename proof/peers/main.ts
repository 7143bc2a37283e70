// `npm run proof -- peers`: the same duplicates, crashes, lost replies and outages of Redis for this service and for small
// servers made with other libraries, in front of the same reference processor. Its charge log decides what was charged.
//
//   PEERS_SEED   of every choice, printed      PEERS_ONLY  only servers whose name contains one of these, by comma
//
// Exit code 1 when this service charged a key twice or gave it two results, 2 when it could not be run, 130 when it was
// interrupted: then the trials that have ended are reported.
import { execFileSync } from 'node:child_process';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { PEERS } from './peers.js';
import { isBroken, report, type Trial } from './report.js';
import { runTrial } from './trial.js';

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
const trials: Trial[] = [];
try {
  const only = (process.env.PEERS_ONLY ?? '').split(',').map((part) => part.trim());
  const unknown = only.filter((part) => !PEERS.some(({ name }) => name.includes(part)));
  if (unknown.length > 0) throw new Error(`PEERS_ONLY: no server has "${unknown.join('" or "')}" in its name.`);
  execFileSync('npm', ['ci', '--silent', '--ignore-scripts', '--prefix', 'proof/peers'], { stdio: 'inherit' });
  const seed = seedFrom('PEERS_SEED');
  for (const peer of PEERS.filter(({ name }) => only.some((part) => name.includes(part)))) {
    console.log(peer.name);
    for (const deduplicates of [false, true]) {
      const trial = await runTrial(peer, deduplicates, seededRandom(seed), stop.signal);
      trials.push(trial);
      console.log(`  the processor ${deduplicates ? 'deduplicates' : 'does not deduplicate'}: done`);
      if (trial.ownEnds.length > 0) console.log(`  ended by itself: ${trial.ownEnds.at(-1)}`);
    }
  }
  if (trials.some((trial) => trial.peer.isOurs && isBroken(trial))) process.exitCode = 1;
} catch (fault) {
  console.error(stop.signal.aborted ? 'interrupted' : fault);
  process.exitCode = stop.signal.aborted ? 130 : 2;
}
if (trials.length > 0) console.log(`\n${report(trials)}`);
// An interrupted trial leaves timers behind.
process.exit();
