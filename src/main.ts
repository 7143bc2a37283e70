import { setFlagsFromString } from 'node:v8';
import { refusalOfNode } from './node-version.js';

// Nothing else is imported here: an older Node could fail to load it, with a stack instead of this sentence.
const refusal = refusalOfNode(process.versions.node);
if (refusal === undefined) {
  // Set before any request: otherwise the engine may allocate request objects in its old generation,
  // in some processes and not in others, at up to twice the CPU time for a request (decision 0059).
  setFlagsFromString('--no-allocation-site-pretenuring');
  // The old generation may grow to three times what lives: while it is collected, other threads take the processors for 50 ms
  // and more, and the engine would do so every few seconds (decision 0065).
  setFlagsFromString('--heap-growing-percent=200');
  import('./command-line.js').then(({ run }) => run(process.argv.slice(2)));
} else {
  console.error(refusal);
  process.exitCode = 1;
}
