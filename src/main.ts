import { setFlagsFromString } from 'node:v8';
import { refusalOfNode } from './node-version.js';

// Nothing else is imported here: an older Node could fail to load it, with a stack instead of this sentence.
const refusal = refusalOfNode(process.versions.node);
if (refusal === undefined) {
  // Set before any request: otherwise the engine may allocate request objects in its old generation,
  // in some processes and not in others, at up to twice the CPU time for a request (decision 0059).
  setFlagsFromString('--no-allocation-site-pretenuring');
  import('./commands/command-line.js').then(({ run }) => run(process.argv.slice(2)));
} else {
  console.error(refusal);
  process.exitCode = 1;
}
