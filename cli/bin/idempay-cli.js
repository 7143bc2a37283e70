#!/usr/bin/env node
// Kept in the repository, because npm links a command when it first sees the package, and the build writes no executable file.
const main = new URL('../dist/cli/main.js', import.meta.url);

import('node:fs').then(({ existsSync }) => {
  if (existsSync(main)) return import(main.href);
  console.error('Idempay is not built yet. Run: npm run build');
  process.exitCode = 1;
});
