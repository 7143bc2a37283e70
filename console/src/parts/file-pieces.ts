/** The file is stored in pieces of this length, out of the memory of scripts. */
const PIECE_CHARACTERS = 1_000_000;

/** A file that is written line by line. */
export function createFile(beginning: string) {
  let pieces: Blob[] = [];
  let text = beginning;
  return {
    add(line: string): void {
      text += line;
      if (text.length < PIECE_CHARACTERS) return;
      pieces.push(new Blob([text]));
      text = '';
    },
    end(type: string): Blob {
      pieces = [...pieces, new Blob([text])];
      return new Blob(pieces, { type });
    },
  };
}
