import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { judgeFileSystem } from '#idempay/stores/embedded/file/checks.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { findingsOfFolder } from '../../testkit/deployments/doctor.js';
import { runToExit, spawnProgram, startService } from '../../testkit/processes/service.js';
import { ROOT, SERVICE } from '../../testkit/programs.js';
import { mountSmallDisk } from '../../testkit/servers/small-disk.js';

/** Not in the folder for temporary files: that may be memory, which is a finding. */
const BASE = join(ROOT, 'node_modules', '.cache');
let folder: string;
beforeEach(async () => {
  await mkdir(BASE, { recursive: true });
  folder = await mkdtemp(join(BASE, 'doctor-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const rowOf = async (dataDir: string, what: string) =>
  (await findingsOfFolder(dataDir)).find((finding) => finding.what === what);

describe('idempay doctor on the embedded deployment', () => {
  test('finds nothing wrong alongside a service that runs, and leaves nothing behind', async () => {
    await chmod(folder, 0o700);
    const service = await startService({ DATA_DIR: folder });
    await givenPaid(service.url);
    const { code, output } = await runToExit({ DATA_DIR: folder }, { parameters: ['doctor'] });
    const names = await readdir(folder);
    await givenPaid(service.url);
    await service.stop();
    expect(output).toMatch(/^ok +DATA_DIR .*mode 700/m);
    expect(output).toMatch(/^ok +SQLite schema +that of this version /m);
    expect(output).toMatch(/^ok +DATA_DIR lock +a file can be locked/m);
    expect(output).toMatch(/^\w+ +DATA_DIR sync time +[\d.]+ ms, .*5 writes/m);
    expect(output).not.toMatch(/^wrong/m);
    expect(output.trimEnd().split('\n').at(-1)).toMatch(/^0 wrong, \d+ warnings?, \d+ ok\.$/);
    expect(code).toBe(0);
    expect(names.filter((name) => !/^(idempay\.sqlite(-wal|-shm)?|lock\.sqlite.*)$/.test(name))).toEqual([]);
  });

  test('with --json each finding is a document, and so is the error that settings cannot be read', async () => {
    await chmod(folder, 0o777);
    const { code, output } = await runToExit({ DATA_DIR: folder }, { parameters: ['doctor', '--json'] });
    const findings = output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const finding of findings) {
      expect(Object.keys(finding)).toEqual(['verdict', 'what', 'found', 'wanted', 'why', 'advice']);
    }
    expect(findings.find(({ what }) => what === 'DATA_DIR')).toMatchObject({ verdict: 'wrong' });
    const broken = await runToExit({ PORT: 'x' }, { parameters: ['doctor', '--json'] });
    expect(JSON.parse(broken.output)).toMatchObject({ exitCode: 1, message: expect.stringContaining('PORT') });
    expect([code, broken.code]).toEqual([1, 1]);
  });

  test('makes no folder, and says that the first start will', async () => {
    const missing = join(folder, 'a', 'b');
    expect(await rowOf(missing, 'DATA_DIR')).toMatchObject({
      verdict: 'warning',
      found: expect.stringMatching(/not there/),
    });
    expect(await readdir(folder)).toEqual([]);
  });

  test('finds a folder that others may read or change, and one that is a file', async () => {
    for (const [mode, verdict] of [
      [0o700, 'ok'],
      [0o755, 'warning'],
      [0o777, 'wrong'],
    ] as const) {
      await chmod(folder, mode);
      expect(await rowOf(folder, 'DATA_DIR'), mode.toString(8)).toMatchObject({ verdict });
    }
    await writeFile(join(folder, 'file'), '');
    expect(await rowOf(join(folder, 'file'), 'DATA_DIR')).toMatchObject({ verdict: 'wrong' });
  });

  test('finds a schema of a newer version, and leaves no file alongside a stopped database', async () => {
    const found = () => rowOf(folder, 'SQLite schema');
    expect(await found()).toMatchObject({ verdict: 'ok', found: expect.stringMatching(/^none yet/) });
    const path = join(folder, 'idempay.sqlite');
    const database = new DatabaseSync(path);
    database.exec('PRAGMA journal_mode = WAL; PRAGMA user_version = 900');
    database.close();
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringMatching(/^of another .* 900$/) });
    expect(await readdir(folder)).toEqual(['idempay.sqlite']);
    await writeFile(path, 'x'.repeat(4_096));
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringMatching(/^cannot be read/) });
  });

  test('finds memory in place of a disk, and a disk without room, each in a row', async () => {
    const disk = await mountSmallDisk(8);
    const doctor = async () => {
      const { child, ended } = spawnProgram(SERVICE, { DATA_DIR: disk.folder }, disk.launcher, ['doctor']);
      const output = await text(child.stdout);
      expect((await ended).code).toBe(1);
      return output;
    };
    try {
      const small = await doctor();
      expect(small).toMatch(/^wrong +DATA_DIR file system +tmpfs/m);
      expect(small).toMatch(/^wrong +DATA_DIR free space +8 MB/m);
      await disk.fill();
      expect(await doctor()).toMatch(/^wrong +DATA_DIR sync time +ENOSPC/m);
    } finally {
      await disk.remove();
    }
  });

  test.each([
    [0x6969, 'NFS', 'wrong'],
    [0xfe534d42, 'SMB', 'wrong'],
    [0xff534d42, 'CIFS', 'wrong'],
    [0x65735546, 'FUSE', 'warning'],
    [0xef53, 'local (0xef53)', 'ok'],
    // As a signed number of 32 bits.
    [-28095166, 'SMB', 'wrong'],
  ])('a file system of type %i is %s: %s', (type, found, verdict) => {
    expect(judgeFileSystem(type)).toMatchObject({ found, verdict });
  });
});
