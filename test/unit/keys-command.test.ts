import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiKeys, readApiKeys } from '#idempay/access/api-keys.js';
import { keysCommand } from '#idempay/commands/keys.js';

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-keys-'));
  file = join(folder, 'keys.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** What the command prints, or the sentence that it refuses with. */
function keys(...parameters: string[]): string {
  const printed: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((line: string) => printed.push(line));
  vi.spyOn(console, 'error').mockImplementation(() => {});
  vi.spyOn(console, 'table').mockImplementation((rows: unknown) => printed.push(JSON.stringify(rows)));
  try {
    keysCommand(parameters, { API_KEYS_FILE: file });
    return printed.join('\n');
  } finally {
    vi.restoreAllMocks();
  }
}

function clientWith(secret: string): string | undefined {
  const read = readApiKeys(readFileSync(file, 'utf8'));
  if ('problem' in read) throw new Error(read.problem);
  return new ApiKeys(read).callerWith(secret, Date.now())?.client;
}

test('keys are added, listed without their secrets, and revoked one by one or with their client', () => {
  const secrets = ['shop', 'shop', 'rival'].map((name) =>
    keys('add', name, '--scopes', 'payments:write, payments:read'),
  );
  expect(secrets.map(clientWith)).toEqual(['key:shop', 'key:shop', 'key:rival']);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const list = keys('list');
  for (const secret of secrets) expect(list + readFileSync(file, 'utf8')).not.toContain(secret);
  const id = /[0-9a-f]{12}/.exec(list)?.[0] ?? '';
  expect(keys('revoke', 'shop', '--id', id)).toMatch(/^1 revoked/);
  expect(secrets.map(clientWith)).toEqual([undefined, 'key:shop', 'key:rival']);
  expect(keys('revoke', 'shop')).toMatch(/^1 revoked/);
  expect(secrets.map(clientWith)).toEqual([undefined, undefined, 'key:rival']);
  expect(readdirSync(folder)).toEqual(['keys.json']);
});

test('a key may expire, and the file may be a link', () => {
  const target = join(folder, 'mounted.json');
  writeFileSync(target, '[]');
  symlinkSync(target, file);
  const past = keys('add', 'shop', '--scopes', 'metrics', '--expires-at', '2020-01-01T00:00:00Z');
  expect(clientWith(past)).toBeUndefined();
  expect(readFileSync(target, 'utf8')).toContain('2020-01-01T00:00:00Z');
});

test.each<[string, string[], RegExp]>([
  ['no action', [], /^Say what to do with the keys/],
  ['an unknown action', ['delete', 'shop'], /^'delete' is nothing to do with keys/],
  ['no name', ['add', '--scopes', 'metrics'], /^Name the client/],
  ['a name that cannot be one', ['add', 'my shop', '--scopes', 'metrics'], /^Name the client/],
  ['no scopes', ['add', 'shop'], /^--scopes takes one or more of payments:write, /],
  ['an unknown scope', ['add', 'shop', '--scopes', 'metrics,all'], /^--scopes takes one or more/],
  ['a bad time', ['add', 'shop', '--scopes', 'metrics', '--expires-at', 'tomorrow'], /^--expires-at takes a time/],
  ['one argument too many', ['list', 'shop', 'rival'], /^'rival' is one argument too many/],
  ['an unknown option', ['list', '--all'], /^Unknown option '--all'/],
  ['a client that has none', ['revoke', 'shop'], /^There is no such key/],
])('with %s the command says what to do', (_what, parameters, sentence) => {
  expect(() => keys(...parameters)).toThrow(sentence);
});

test.each([['a file that holds something else', '{"a":1}', /^.*keys\.json is no file of API keys: /]])(
  '%s is left as it is',
  (_what, content, sentence) => {
    writeFileSync(file, content);
    expect(() => keys('add', 'shop', '--scopes', 'metrics')).toThrow(sentence);
    expect(readFileSync(file, 'utf8')).toBe(content);
    expect(readdirSync(folder)).toEqual(['keys.json']);
  },
);

test('of two edits at the same time one is refused, and changes nothing', () => {
  keys('add', 'shop', '--scopes', 'metrics');
  const before = readFileSync(file, 'utf8');
  writeFileSync(`${file}.new`, '');
  expect(() => keys('add', 'rival', '--scopes', 'metrics')).toThrow(
    /keys\.json\.new exists: another command is writing/,
  );
  expect(readFileSync(file, 'utf8')).toBe(before);
});
