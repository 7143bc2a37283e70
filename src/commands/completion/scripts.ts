import { FILES } from './candidates.js';

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
