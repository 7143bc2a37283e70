/** `npm run test:long -- fuzz` sets it. */
export const TRIES_ALL = process.env.CASES === 'all';
/** `npm test` tries one in this number of generated cases. */
const ONE_OF = 4;

/** How many generated cases a test tries, if the long suite tries this many. */
export const casesOf = (all: number): number => (TRIES_ALL ? all : Math.ceil(all / ONE_OF));

/** True if a test tries the case of this number. The long suite tries all of them. */
export const isTried = (number: number): boolean => TRIES_ALL || number % ONE_OF === 0;
