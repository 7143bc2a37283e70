import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sendJson } from '../../testkit/client/http-client.js';
import { packInto, USERS_ENVIRONMENT } from '../../testkit/packed.js';

const ORDER = '/api/payment?reference=order-17';
const CONTENT = { amount: '100.50', currency: 'USD' };

describe('npx idempay, from the package, in an empty folder', () => {
  let packages: string;
  let service: string;

  beforeAll(async () => {
    packages = await mkdtemp(join(tmpdir(), 'idempay-versions-'));
    ({ service } = await packInto(packages));
  });

  afterAll(() => rm(packages, { recursive: true, force: true }));

  test.each(['20', '22', '24'])('serves on Node.js %s, and charges an order once', async (version) => {
    const folder = await mkdtemp(join(packages, 'empty-'));
    // npm runs on that version too.
    const npx = ['--yes', '--prefer-offline', `--package=node@${version}`, '--', 'npx', '--yes', '--prefer-offline'];
    // A newer npm runs no script of a package that its user did not allow, so the service must not need one.
    const child = spawn('npx', [...npx, '--ignore-scripts', `--package=${service}`, '--', 'idempay'], {
      cwd: folder,
      env: { ...USERS_ENVIRONMENT, PORT: '0', npm_config_engine_strict: 'true' },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A group of its own, which gets a signal as from a terminal.
      detached: true,
    });
    const group = -(child.pid as number);
    const ended = once(child, 'close');
    onTestFinished(() => {
      if (child.exitCode === null && child.signalCode === null) process.kill(group, 'SIGKILL');
    });
    const lines: string[] = [];
    const { port, pid } = await new Promise<{ port: number; pid: number }>((resolve, reject) => {
      const read = (line: string) => {
        lines.push(line);
        if (line.includes('"msg":"listening"')) resolve(JSON.parse(line));
      };
      for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', read);
      ended.then(() => reject(new Error(`ended before it listened:\n${lines.join('\n')}`)), reject);
    });

    const url = `http://127.0.0.1:${port}${ORDER}`;
    const paid = await sendJson(url, 'POST', CONTENT);
    const again = await sendJson(url, 'POST', CONTENT);
    expect([paid.status, again.status, again.headers['idempotent-replayed']]).toEqual([200, 200, 'true']);
    expect(paid.text).toContain(/TXN\d+/.exec(again.text)?.[0]);
    const node = execFileSync(await readlink(`/proc/${pid}/exe`), ['--version']).toString();
    expect(node.split('.')[0]).toBe(`v${version}`);
    expect(await readdir(folder)).toEqual(['data']);

    process.kill(group, 'SIGTERM');
    await ended;
    expect(lines.at(-1)).toContain('"msg":"drained"');
  });
});
