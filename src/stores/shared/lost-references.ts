/** For how long, of the time that was seen, the first claim of a reference asks the processor after rows were lost: `references.md`. */
export const LOOK_UP_REFERENCES_MS = 30 * 86_400_000;

/** The lowest computed key, which is above every generated one. */
export const FIRST_COMPUTED_KEY = 'f0000000-0000-8000-8000-000000000000';
