import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { candidatesFor } from '#idempay/commands/completion/candidates.js';
import { SCRIPTS } from '#idempay/commands/completion/scripts.js';
import { createProgram } from '#idempay/commands/program.js';
import { SERVICE } from '../../testkit/programs.js';

describe('completion', () => {
  const candidates = (...words: string[]) => candidatesFor(createProgram(), words);

  it.each<[string, string[], string[]]>([
    ['commands', ['pa'], ['pay', 'payments']],
    ['commands of a group', ['transactions', 'set'], ['set-status']],
    ['options', ['pay', '--re'], ['--resume']],
    ['states', ['payments', 'list', '--state', 'C'], ['COMPLETED']],
    ['states after a sign', ['payments', 'list', '--state', '=', 'C'], ['COMPLETED']],
    ['statuses', ['transactions', 'set-status', '100000000000001', 'F'], ['FLAGGED', 'FAILED']],
    ['currencies', ['pay', '--currency', 'US'], ['USD', 'USN']],
    ['options after their values', ['pay', '--amount', '1', '--cur'], ['--currency']],
    ['files', ['transactions', 'import', ''], [':files']],
    ['files of options', ['pay', '--key-file', ''], [':files']],
    ['nothing for free text', ['transactions', 'create', '--from', ''], []],
    ['shells', ['completion', ''], ['bash', 'zsh']],
  ])('offers %s', async (_what, words, expected) => {
    expect((await candidates(...words)).toSorted()).toEqual(expected.toSorted());
  });

  it('does not offer what it is asked through', async () => {
    expect(await candidates('')).not.toContain('complete');
  });
});

describe('the script for bash', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempay-completion-'));
    writeFileSync(join(folder, 'idempay'), `#!/bin/sh\nexec '${process.execPath}' '${SERVICE}' "$@"\n`);
    chmodSync(join(folder, 'idempay'), 0o755);
    writeFileSync(join(folder, 'rows of may.csv'), '');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function completed(...words: string[]): string[] {
    const quoted = words.map((word) => `'${word}'`).join(' ');
    const script = `source <(idempay completion bash)
      COMP_WORDS=(idempay ${quoted}); COMP_CWORD=${words.length}
      _idempay; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], {
      encoding: 'utf8',
      cwd: folder,
      env: { PATH: `${folder}:${process.env.PATH}` },
    });
    expect(stderr).toBe('');
    return stdout.split('\n').filter(Boolean);
  }

  it('completes commands, options, statuses and files', () => {
    expect(completed('trans')).toEqual(['transactions']);
    expect(completed('payments', 'export', '--fo')).toEqual(['--format']);
    expect(completed('transactions', 'set-status', '1', 'BL')).toEqual(['BLOCKED']);
    expect(completed('transactions', 'import', 'rows')).toEqual(['rows of may.csv']);
  });
});

it('the script for zsh defines its function and gives it to compdef', () => {
  expect(SCRIPTS.zsh).toMatch(/^#compdef idempay\n_idempay\(\) \{[\s\S]*\n\}\ncompdef _idempay idempay$/);
});
