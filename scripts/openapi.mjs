// Writes the description that `/openapi.json` serves to a file, or to the output. Starts nothing and opens no store.
//   npm run --silent build && node scripts/openapi.mjs [FILE]
import { writeFileSync } from 'node:fs';
import { pino } from 'pino';
import { createListener } from '../dist/http/connections/listener.js';
import { createServer } from '../dist/http/server.js';

const silent = pino({ level: 'silent' });
const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
const server = createServer(createListener(silent), {}, rules, silent, () => {});
const text = `${JSON.stringify(server.openApiDocument(), undefined, 2)}\n`;
const [, , file] = process.argv;
if (file === undefined) process.stdout.write(text);
else writeFileSync(file, text);
