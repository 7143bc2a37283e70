import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ApiKeys, readApiKeys } from '#idempay/access/api-keys.js';
import { run } from '#idempay/commands/command-line.js';

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-keys-'));
  file = join(folder, 'keys.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The output of the command, or the sentence that it refuses with. */
async function keys(...parameters: string[]): Promise<string> {
  const [printed, told]: [string[], string[]] = [[], []];
  vi.stubEnv('API_KEYS_FILE', file);
  vi.spyOn(console, 'error').mockImplementation((line: string) => told.push(line));
  vi.spyOn(process.stdout, 'write').mockImplementation((text, ...more: unknown[]) => {
    printed.push(String(text).trimEnd());
    (more.at(-1) as () => void)();
    return true;
  });
  try {
    await run(['keys', ...parameters]);
    if (process.exitCode === 1) throw new Error(told.join('\n'));
    return printed.join('\n');
  } finally {
    process.exitCode = undefined;
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  }
}

function clientWith(secret: string): string | undefined {
  const read = readApiKeys(readFileSync(file, 'utf8'));
  if ('problem' in read) throw new Error(read.problem);
  return new ApiKeys(read).callerWith(secret, Date.now())?.client;
}

test('with --json the new key is one document, which names it as the list does', async () => {
  const added = await keys('add', 'shop', '--scopes', 'metrics', '--expires-at', '2999-01-01T00:00:00Z', '--json');
  const { secret, ...key } = JSON.parse(added) as { secret: string };
  expect(key).toEqual(JSON.parse(await keys('list', '--json')));
  expect(clientWith(secret)).toBe('key:shop');
});

test('keys are added, listed without their secrets, and revoked one by one or with their client', async () => {
  const secrets: string[] = [];
  for (const name of ['shop', 'shop', 'rival']) {
    secrets.push(await keys('add', name, '--scopes', 'payments:write, payments:read'));
  }
  expect(secrets.map(clientWith)).toEqual(['key:shop', 'key:shop', 'key:rival']);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const list = await keys('list');
  for (const secret of secrets) expect(list + readFileSync(file, 'utf8')).not.toContain(secret);
  const id = /[0-9a-f]{12}/.exec(list)?.[0] ?? '';
  expect(await keys('revoke', 'shop', '--id', id)).toMatch(/^1 revoked/);
  expect(secrets.map(clientWith)).toEqual([undefined, 'key:shop', 'key:rival']);
  expect(await keys('revoke', 'shop')).toMatch(/^1 revoked/);
  expect(secrets.map(clientWith)).toEqual([undefined, undefined, 'key:rival']);
  expect(readdirSync(folder)).toEqual(['keys.json']);
});

/**
 * Bug: `keys revoke shop --id a` revoked several keys, because the hash of a key only had to begin with the id.
 * Fix: an id has at least the digits that `keys list` shows, and names one key.
 */
describe('two keys whose hashes differ in their last digit', () => {
  const sha256s = ['a', 'b'].map((last) => `${'0'.repeat(63)}${last}`);
  const left = () => (JSON.parse(readFileSync(file, 'utf8')) as { sha256: string }[]).map(({ sha256 }) => sha256);
  beforeEach(() =>
    writeFileSync(file, JSON.stringify(sha256s.map((sha256) => ({ name: 'shop', scopes: ['metrics'], sha256 })))),
  );

  test.each<[string, string, RegExp]>([
    ['one digit', '0', /^--id takes the id that 'keys list' shows/],
    ['one digit less than the list shows', '0'.repeat(11), /^--id takes the id that 'keys list' shows/],
    ['capital letters', 'ABCDEF012345', /^--id takes the id that 'keys list' shows/],
    ['more digits than a hash has', '0'.repeat(65), /^--id takes the id that 'keys list' shows/],
    ['an id of both', '0'.repeat(12), /^2 keys of shop have this id, and none was revoked/],
    ['no digit', '', /^--id has an empty value/],
  ])('are not revoked by %s', async (_what, id, sentence) => {
    await expect(keys('revoke', 'shop', '--id', id)).rejects.toThrow(sentence);
    expect(left()).toEqual(sha256s);
    expect(readdirSync(folder)).toEqual(['keys.json']);
  });

  test('are revoked one by one by their whole hashes', async () => {
    expect(await keys('revoke', 'shop', '--id', sha256s[0] ?? '')).toMatch(/^1 revoked/);
    expect(left()).toEqual(sha256s.slice(1));
  });
});

test('a key may expire, and the file may be a link', async () => {
  const target = join(folder, 'mounted.json');
  writeFileSync(target, '[]');
  symlinkSync(target, file);
  const past = await keys('add', 'shop', '--scopes', 'metrics', '--expires-at', '2020-01-01T00:00:00Z');
  expect(clientWith(past)).toBeUndefined();
  expect(readFileSync(target, 'utf8')).toContain('2020-01-01T00:00:00Z');
});

/** Another user than this process is, if this process may become one (root). */
const [uid, gid] = process.getuid?.() === 0 ? [65_534, 65_533] : [process.getuid?.() ?? 0, process.getgid?.() ?? 0];

/**
 * Bug: `keys revoke`, run by root on the file of the service's user, said that the key was revoked, and it went on to work.
 * Cause: the file that replaced the old one belonged to root with mode 0600; the service could not read it and kept the old keys.
 * Fix: the new file gets owner, group and mode of the old one, or nothing is changed.
 */
test('an edit keeps the owner, the group and the mode of the file', async () => {
  const secret = await keys('add', 'shop', '--scopes', 'metrics');
  chownSync(file, uid, gid);
  chmodSync(file, 0o640);
  expect(await keys('revoke', 'shop')).toMatch(/^1 revoked/);
  expect(clientWith(secret)).toBeUndefined();
  expect(statSync(file)).toMatchObject({ uid, gid, mode: 0o100640 });
  await keys('add', 'shop', '--scopes', 'metrics');
  expect(statSync(file)).toMatchObject({ uid, gid, mode: 0o100640 });
});

test.runIf(process.getuid?.() === 0)(
  'a file of another user is left as it is where its owner cannot be kept',
  async () => {
    const secret = await keys('add', 'shop', '--scopes', 'metrics');
    chmodSync(file, 0o644);
    chownSync(folder, uid, gid);
    // The effective user only, which the test takes back.
    process.seteuid?.(uid);
    try {
      await expect(keys('revoke', 'shop')).rejects.toThrow(
        /belongs to another user \(0, group 0\).* Nothing was changed/,
      );
    } finally {
      process.seteuid?.(0);
    }
    expect(clientWith(secret)).toBe('key:shop');
    expect(readdirSync(folder)).toEqual(['keys.json']);
  },
);

test.each<[string, string[], RegExp]>([
  ['no action', [], /^Usage: idempay keys/],
  ['an unknown action', ['delete', 'shop'], /^unknown command 'delete'/],
  ['no name', ['add', '--scopes', 'metrics'], /^missing required argument 'name'/],
  ['a name that cannot be one', ['add', 'my shop', '--scopes', 'metrics'], /^Name the client/],
  ['no scopes', ['add', 'shop'], /^--scopes takes one or more of payments:write, /],
  ['an unknown scope', ['add', 'shop', '--scopes', 'metrics,all'], /^--scopes takes one or more/],
  ['a bad time', ['add', 'shop', '--scopes', 'metrics', '--expires-at', 'tomorrow'], /^--expires-at takes a time/],
  ['one argument too many', ['list', 'shop', 'rival'], /^too many arguments for 'list'/],
  ['an unknown option', ['list', '--all'], /^unknown option '--all'/],
  ['a client that has none', ['revoke', 'shop'], /^There is no such key/],
])('with %s the command says what to do', async (_what, parameters, sentence) => {
  await expect(keys(...parameters)).rejects.toThrow(sentence);
});

/** Bug: `keys revoke` with a mistyped file made that file, without keys, and a service that was pointed there refused everybody. */
test('a file that is not there is not made by a key that is not there', async () => {
  await expect(keys('revoke', 'shop')).rejects.toThrow(`There is no such key in ${file}.`);
  expect(readdirSync(folder)).toEqual([]);
});

test.each([['a file that holds something else', '{"a":1}', /^.*keys\.json is not a file of API keys: /]])(
  '%s is left as it is',
  async (_what, content, sentence) => {
    writeFileSync(file, content);
    await expect(keys('add', 'shop', '--scopes', 'metrics')).rejects.toThrow(sentence);
    expect(readFileSync(file, 'utf8')).toBe(content);
    expect(readdirSync(folder)).toEqual(['keys.json']);
  },
);

test('of two edits at the same time one is refused, and changes nothing', async () => {
  await keys('add', 'shop', '--scopes', 'metrics');
  const before = readFileSync(file, 'utf8');
  writeFileSync(`${file}.new`, '');
  await expect(keys('add', 'rival', '--scopes', 'metrics')).rejects.toThrow(
    /keys\.json\.new exists: another command is writing/,
  );
  expect(readFileSync(file, 'utf8')).toBe(before);
});
