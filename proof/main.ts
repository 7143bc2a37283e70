// `npm run proof -- PROGRAM [options]`: runs one of the programs that search for a broken promise. Each has a usage of its own.
//
//   npm run proof -- simulate   both deployments on simulated stores and networks, by seed
//   npm run proof -- faults     minutes of random faults on real services and servers
//   npm run proof -- mutants    deliberate mistakes, each of which a check must notice
//   npm run proof -- peers      the same faults for servers made with other libraries
const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  simulate: () => import('./simulator/main.js'),
  faults: () => import('./faults/main.js'),
  mutants: () => import('./mutants/main.js'),
  peers: () => import('./peers/main.js'),
};

// A program finds its options in the place of the main file's options.
const [name = ''] = process.argv.splice(2, 1);
const program = PROGRAMS[name];
if (program) {
  await program();
} else {
  console.error(`There is no program "${name}". Name one of: ${Object.keys(PROGRAMS).join(', ')}.`);
  process.exitCode = 2;
}
