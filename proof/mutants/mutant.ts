/** One text in a file and what replaces it; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A deliberate mistake, one of those that are easily made. */
export interface Mutant {
  readonly name: string;
  readonly edits: readonly Edit[];
}

/** Mutants of one file, by name: each a list of texts in turn with what replaces them. */
export function mutantsOf(file: string, mutants: Readonly<Record<string, readonly string[]>>): Mutant[] {
  return Object.entries(mutants).map(([name, texts]) => {
    const edits = texts.flatMap((find, index) =>
      index % 2 === 0 ? [{ file, find, replace: texts[index + 1] as string }] : [],
    );
    return { name, edits };
  });
}

/** A mutant of several files. */
export function mutant(name: string, ...edits: [file: string, find: string, replace: string][]): Mutant {
  return { name, edits: edits.map(([file, find, replace]) => ({ file, find, replace })) };
}
