import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { candidatesFor } from '#idempay/commands/completion/shell-completion.js';
import { createProgram } from '#idempay/commands/program.js';
import { SERVICE } from '../../testkit/programs.js';
import { findZsh } from '../../testkit/servers/binaries.js';

describe('completion', () => {
  const candidates = (...words: string[]) => candidatesFor(createProgram(), words);

  it.each<[string, string[], string[]]>([
    ['commands', ['pa'], ['pay', 'payments']],
    ['commands of a group', ['transactions', 'set'], ['set-status']],
    ['options', ['pay', '--re'], ['--reference', '--resume']],
    ['states', ['payments', 'list', '--state', 'C'], ['CANCELLED', 'COMPLETED']],
    ['states after a sign', ['payments', 'list', '--state', '=', 'C'], ['CANCELLED', 'COMPLETED']],
    ['statuses', ['transactions', 'set-status', '100000000000001', 'F'], ['FLAGGED', 'FAILED']],
    ['currencies', ['pay', '--currency', 'US'], ['USD', 'USN']],
    ['options after their values', ['pay', '--amount', '1', '--cur'], ['--currency']],
    ['files', ['transactions', 'import', ''], [':files']],
    ['statements', ['payments', 'reconcile', ''], [':files']],
    ['what a processor can do', ['processor', ''], ['check']],
    ['options of a processor check', ['processor', 'check', '--d'], ['--declining-source', '--deadline']],
    ['currencies of a processor check', ['processor', 'check', '--currency', 'EU'], ['EUR']],
    ['nothing for a URL', ['processor', 'check', ''], []],
    ['decimal marks', ['payments', 'reconcile', '--decimal-mark', ''], ['.', ',']],
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

describe('the scripts', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempay-completion-'));
    writeFileSync(join(folder, 'idempay'), `#!/bin/sh\nexec '${process.execPath}' '${SERVICE}' "$@"\n`);
    chmodSync(join(folder, 'idempay'), 0o755);
    writeFileSync(join(folder, 'rows of may.csv'), '');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  async function outputOf(shell: string, parameters: readonly string[]): Promise<string[]> {
    const { stdout, stderr } = await promisify(execFile)(shell, parameters, {
      cwd: folder,
      env: { PATH: `${folder}:${process.env.PATH}` },
    });
    expect(stderr).toBe('');
    return stdout.split('\n').filter(Boolean);
  }
  const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join(' ');

  it('for bash completes commands, options, statuses and files', async () => {
    const completed = (...words: string[]) => {
      const script = `source <(idempay completion bash)
        COMP_WORDS=(idempay ${quoted(words)}); COMP_CWORD=${words.length}
        _idempay; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return outputOf('bash', ['--norc', '-c', script]);
    };
    expect(await completed('trans')).toEqual(['transactions']);
    expect(await completed('payments', 'export', '--fo')).toEqual(['--format']);
    expect(await completed('transactions', 'set-status', '1', 'BL')).toEqual(['BLOCKED']);
    expect(await completed('transactions', 'import', 'rows')).toEqual(['rows of may.csv']);
  });

  it('for zsh completes commands, options and statuses, and leaves files to zsh', { timeout: 120_000 }, async () => {
    const { path, modules } = await findZsh();
    const completed = (...words: string[]) => {
      // These three are zsh's own, and only work at its prompt.
      const script = `${modules ? `module_path=('${modules}')` : ''}
        compdef() { :; }; _files() { print files; }; compadd() { shift; print -l -- "$@"; }
        source <(idempay completion zsh)
        words=(idempay ${quoted(words)}); CURRENT=${words.length + 1}; _idempay`;
      return outputOf(path, ['--no-rcs', '-c', script]);
    };
    expect(await completed('trans')).toEqual(['transactions']);
    expect(await completed('payments', 'export', '--fo')).toEqual(['--format']);
    expect(await completed('transactions', 'set-status', '1', '')).toHaveLength(8);
    expect(await completed('transactions', 'import', 'rows')).toEqual(['files']);
  });
});
