import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { buildImage, onMachine } from '../../testkit/image.js';
import { startProgram } from '../../testkit/processes/service.js';

/** Bug: a folder that the build had come to need was missing in the image. Cause: images are built elsewhere, and rarely. */
describe('the image, built by the steps of the Dockerfile in empty folders', () => {
  let folder: string;
  let image: ReturnType<typeof buildImage>;
  /** Runs as the user of the image. */
  let asUser: string[];
  const inImage = (command: readonly string[], environment: Readonly<Record<string, string>> = {}) => {
    const [program = '', ...args] = [...asUser, ...command.map((part) => onMachine(image, part))];
    const env = { PATH: process.env.PATH, ...image.environment, ...environment };
    return execFileSync(program, args, { cwd: join(image.root, image.workdir), env }).toString();
  };

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempay-image-'));
    chmodSync(folder, 0o755);
    image = buildImage(folder);
    const isRoot = process.getuid?.() === 0;
    asUser = isRoot ? ['setpriv', `--reuid=${image.user}`, `--regid=${image.user}`, '--clear-groups'] : [];
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('serves as its user with the settings and the entry point of the image, and is healthy', async () => {
    const keys = '/data/api-keys.json';
    const command = ['/usr/local/bin/idempay', 'keys', 'add', 'shop', '--scopes', 'payments:write,payments:read'];
    const secret = inImage([...command, '--file', keys]).trim();
    const [node, program = ''] = image.entrypoint ?? [];
    expect(node).toBe('node');
    const service = await startProgram(
      onMachine(image, program),
      // With the packages for traces, without which this setting is refused.
      {
        ...image.environment,
        PORT: '0',
        AUTH: 'required',
        API_KEYS_FILE: onMachine(image, keys),
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      },
      asUser,
    );
    try {
      const headers = { authorization: `Bearer ${secret}` };
      const order = `${service.url}/api/payment?reference=order-17`;
      expect((await sendJson(order, 'POST', { amount: '100.50', currency: 'USD' }, headers)).status).toBe(200);
      for (const path of ['/console', '/docs', '/openapi.json'])
        expect((await ask(`${service.url}${path}`)).status).toBe(200);
      inImage(image.healthcheck ?? [], { PORT: String(service.port) });
    } finally {
      expect((await service.stop()).code).toBe(0);
    }
    expect(() => inImage(image.healthcheck ?? [], { PORT: String(service.port) })).toThrow();
  });

  test('has what runs, and nothing that only builds', () => {
    const modules = join(image.root, image.workdir, 'node_modules');
    expect(['pg', 'fastify', '@opentelemetry'].filter((name) => !existsSync(join(modules, name)))).toEqual([]);
    const builds = ['typescript', 'vite', 'vitest', '@biomejs/biome', '@idempay', 'preact', '.bin/idempay-cli'];
    expect(builds.filter((name) => existsSync(join(modules, name)))).toEqual([]);
    expect(existsSync(join(image.root, image.workdir, 'dist', 'reference-processor', 'main.js'))).toBe(true);
  });
});
