#!/usr/bin/env node
// The command `idempay`. It is kept in the repository, and can be executed there: npm links a command when it first sees the package, and
// would remember that there was none in a clone that is not built yet.
const main = new URL('../dist/main.js', import.meta.url);

import('node:fs').then(({ existsSync }) => {
  if (existsSync(main)) return import(main.href);
  console.error('Idempay is not built yet. Run: npm run build');
  process.exitCode = 1;
});
