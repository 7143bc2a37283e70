import type { Argument, Command, Option } from '@commander-js/extra-typings';

/** In place of candidates: the shell completes names of files. */
export const FILES = ':files';
const ARGUMENTS_OF_FILES: readonly string[] = ['file', 'statement'];

/** The scripts ask the program for candidates, so that they always match the installed version. */
export const SCRIPTS = {
  bash: `_idempay() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    if [[ $candidate == ${FILES} ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}")
    elif [[ -n $candidate ]]; then
      COMPREPLY+=("$candidate")
    fi
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _idempay idempay`,
  zsh: `#compdef idempay
_idempay() {
  local -a candidates
  candidates=("\${(@f)$(\${words[1]} complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ \${candidates[1]} == ${FILES} ]]; then
    _files
  else
    compadd -- \${candidates[@]}
  fi
}
compdef _idempay idempay`,
} as const;

/** What may stand where the cursor is; `words`: all after the program's name, the last one is the one at the cursor. */
export async function candidatesFor(program: Command, words: readonly string[]): Promise<readonly string[]> {
  // bash makes a word of the sign in --state=COMPLETED.
  const typed = words.slice(0, -1).filter((word) => word !== '=');
  const current = (words.at(-1) ?? '').replace(/^=/, '');
  let command = program;
  let operands = 0;
  let awaiting: Option | undefined;
  for (const word of typed) {
    if (awaiting) {
      awaiting = undefined;
    } else if (word.startsWith('-')) {
      awaiting = optionsOf(command).find((option) => [option.short, option.long].includes(word) && takesValue(option));
    } else {
      const next = command.commands.find((each) => each.name() === word) as Command | undefined;
      if (next) command = next;
      else operands += 1;
    }
  }
  const all = awaiting ? await valuesOf(awaiting) : wordsOf(command, operands, current);
  return all.filter((word) => word === FILES || word.startsWith(current));
}

function wordsOf(command: Command, operands: number, current: string): readonly string[] {
  if (current.startsWith('-')) return [...optionsOf(command).map(nameOf), '--help'];
  if (command.commands.length > 0) return visible(command);
  const argument = command.registeredArguments[operands] as Argument | undefined;
  if (argument === undefined) return optionsOf(command).map(nameOf);
  return argument.argChoices ?? (ARGUMENTS_OF_FILES.includes(argument.name()) ? [FILES] : []);
}

async function valuesOf(option: Option): Promise<readonly string[]> {
  if (option.argChoices) return option.argChoices;
  if (option.flags.endsWith('<file>')) return [FILES];
  if (option.long === '--currency') return (await import('../../payments/values/currencies.js')).CURRENCIES;
  return [];
}

const visible = (command: Command) => command.commands.map((each) => each.name()).filter((name) => name !== 'complete');
const optionsOf = (command: Command) => command.options as readonly Option[];
const nameOf = (option: Option) => option.long ?? option.flags;
const takesValue = (option: Option) => option.required || option.optional;
