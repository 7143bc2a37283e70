import { Argument, type Command } from '@commander-js/extra-typings';
import { examples } from '../arguments.js';

const SHELLS = ['bash', 'zsh'] as const;

export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .summary('prints a shell completion script')
    .description('Prints a script for the shell, which completes commands, options, states and currencies.')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .addHelpText(
      'after',
      examples(
        ['source <(idempay completion bash)', 'in ~/.bashrc'],
        ['source <(idempay completion zsh)', 'in ~/.zshrc, after compinit'],
      ),
    )
    .action(async (shell) => console.log((await import('./shell-completion.js')).SCRIPTS[shell]));

  // Asked by those scripts for the words before the cursor, and the one at it.
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(async (words) => {
      const { candidatesFor } = await import('./shell-completion.js');
      console.log((await candidatesFor(program, words)).join('\n'));
    });
}
