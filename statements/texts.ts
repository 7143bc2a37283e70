const MOST_CHARACTERS = 200;

/** A text of somebody else, short enough for a sentence. */
export function clipped(text: string, most = MOST_CHARACTERS): string {
  if (text.length <= most) return text;
  // A character outside of the basic plane is two units.
  const end = /[\ud800-\udbff]/.test(text[most - 1] ?? '') ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}
