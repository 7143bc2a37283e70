import { afterEach, expect, it, vi } from 'vitest';
import { run } from '#idempay/commands/command-line.js';
import { createProgram } from '#idempay/commands/program.js';

/** They have nothing to show beyond their usage line. */
const WITHOUT_EXAMPLE = ['serve', 'backup', 'restored', 'doctor', 'keys list', 'keys revoke'];

afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** They do something themselves besides having commands below them. */
const WITH_BOTH = ['processor'];

const { commands } = createProgram();
const paths = commands
  .flatMap((command) => {
    const below = command.commands.map((each) => [command, each]);
    return below.length === 0 || WITH_BOTH.includes(command.name()) ? [[command], ...below] : below;
  })
  .map((path) => path.map((command) => command.name()))
  .filter(([name]) => name !== 'complete');

it.each(
  commands
    .flatMap((command) => [command, ...command.commands])
    .map((command) => [command.name(), command.description()]),
)('the description of %s breaks no line within a sentence', (_name, description) => {
  for (const line of description.split('\n').slice(0, -1)) expect(line).toMatch(/[.:]$/);
});

it('there is every command of the documentation', () => {
  expect(paths.map((path) => path.join(' '))).toEqual(
    expect.arrayContaining([
      'pay',
      'status',
      'payments resolve',
      'transactions import',
      'processor',
      'processor check',
      'keys add',
    ]),
  );
});

it.each(paths.map((path) => path.join(' ')))('the help of %s teaches with an example', async (name) => {
  let output = '';
  vi.spyOn(console, 'log').mockImplementation((text) => {
    output += text;
  });
  await run([...name.split(' '), '--help']);
  expect(output).toContain(`Usage: idempay ${name} `);
  if (!WITHOUT_EXAMPLE.includes(name)) expect(output).toMatch(/\nExamples?:\n/);
  expect(process.exitCode ?? 0).toBe(0);
});
