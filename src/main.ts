import { refusalOfNode } from './node-version.js';

// Nothing else is imported here: an older Node could fail to load it, with a stack instead of this sentence.
const refusal = refusalOfNode(process.versions.node);
if (refusal === undefined) {
  import('./command-line.js').then(({ run }) => run(process.argv.slice(2)));
} else {
  console.error(refusal);
  process.exitCode = 1;
}
