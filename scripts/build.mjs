// Compiles client/ into client/dist/, src/ into dist/ and console/ into dist/console/, in this order, because the service and the console
// import the client as a package; and copies what the compiler leaves out (SQL). Does nothing that is already done: the compiler is
// incremental, so `npm start` may call this every time.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildConsole } from '../console/build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'src');
const output = join(root, 'dist');
const client = join(root, 'client');
/** What the reference page is made of (docs/engineering/decisions/0041). Copied, so that running the service does not require that package. */
const REFERENCE_PAGE = join('http', 'openapi', 'reference-page');
const SWAGGER_UI_FILES = ['swagger-ui-bundle.js', 'swagger-ui.css'];
const swaggerUi = join(root, 'node_modules', '@fastify', 'swagger-ui', 'static');
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

if (!existsSync(compiler)) {
  // Without the development dependencies (NODE_ENV=production) a build that is there is served as it is.
  if (existsSync(join(output, 'main.js'))) process.exit(0);
  console.error('TypeScript is not installed, so there is nothing to build with: npm ci --include=dev');
  process.exit(1);
}
removeOutputsWithoutSource(client, join(client, 'dist'));
removeOutputsWithoutSource(source, output);
for (const project of [join('client', 'tsconfig.json'), 'tsconfig.build.json']) {
  const compiled = spawnSync(process.execPath, [compiler, '-p', join(root, project)], { stdio: 'inherit' });
  if (compiled.status !== 0) process.exit(compiled.status ?? 1);
}
cpSync(source, output, { recursive: true, filter: (path) => !path.endsWith('.ts') });
for (const name of SWAGGER_UI_FILES) cpSync(join(swaggerUi, name), join(output, REFERENCE_PAGE, name));
await buildConsole(join(output, 'console'));

/**
 * Deleted or renamed files must not stay in what is built: a test could still import the module, and a start would apply
 * the migration under both names.
 */
function removeOutputsWithoutSource(sources, built) {
  if (!existsSync(built)) return;
  const outputs = readdirSync(built, { recursive: true }).filter((path) => /\.(js|sql|lua)$/.test(path));
  const orphaned = outputs.some(
    (path) => !path.startsWith(REFERENCE_PAGE) && !existsSync(join(sources, path.replace(/\.js$/, '.ts'))),
  );
  if (orphaned) rmSync(built, { recursive: true });
}
