import { computedKeyOf, partOf } from './computed-key.js';

/** A thing to be paid once, such as an order, and which attempt at paying it (rule P18). */
export interface Reference {
  readonly text: string;
  /** 1, and one more after each decline, counted by the caller. */
  readonly attempt: number;
  /** The client that the reference belongs to. Undefined if the service tells no clients apart. */
  readonly client: string | undefined;
}

/** The reference of a row; undefined for a key that was generated, and for no row. */
export function referenceIn(
  row:
    | {
        readonly reference?: string | undefined;
        readonly attempt?: number | undefined;
        readonly client?: string | undefined;
      }
    | undefined,
): Reference | undefined {
  const { reference: text, attempt, client } = row ?? {};
  return text === undefined || attempt === undefined ? undefined : { text, attempt, client };
}

/** The payment that a request names: a key, and the reference that it is computed from if that was named. */
export interface NamedPayment {
  readonly key: string;
  /** The client that asks. If it is undefined, every key is visible. */
  readonly client?: string | undefined;
  readonly reference?: Reference | undefined;
  /** The client that sends the request; for an operator it may be another one. Undefined without `AUTH`. */
  readonly by?: string | undefined;
}

/** Makes the idempotency key of a reference: always the same one in one deployment, a UUIDv8. */
export type ComputeKey = (reference: Reference) => string;

export const LAST_ATTEMPT = 99;

const TEXT = /^[A-Za-z0-9\-._~:/@]{1,128}$/;
/** Words that programs write if the number of an order is missing, and the UUID that is all zeros: all such orders would share one payment. */
const ABSENT_VALUE = /(?:^|[-._~:/@])(?:undefined|null|NaN|None|false|nil|0{8}-(?:0{4}-){3}0{12})$/;
/**
 * Words and years, with a separator after each: an empty variable, or a URL that was cut at its `#`, leaves this of a name. No text is
 * matched in two ways: if `A` were also a word in capitals, `A-A-A-` with a digit at its end would take exponential time.
 */
export const WORDS_ALONE = /^(?:(?:[a-z]+|[A-Z][a-z]*|[A-Z]{2,}|(?:19|20)\d\d)[-._~:/@])+$/;
const ATTEMPT = /^[1-9]\d?$/;
/** How the number of an order was lost: `order-undefined` has text in its place, and `order-` has nothing. */
export type LostNumber = 'absent value' | 'words alone';

export function isReference(text: string): boolean {
  return TEXT.test(text) && lostNumberIn(text) === undefined;
}

/** True if a row may have it. Rows from before the rule about words alone can still be listed. */
export function mayBeListed(text: string): boolean {
  return TEXT.test(text) && lostNumberIn(text) !== 'absent value';
}

export function lostNumberIn(text: string): LostNumber | undefined {
  if (ABSENT_VALUE.test(text)) return 'absent value';
  return TEXT.test(text) && WORDS_ALONE.test(text) ? 'words alone' : undefined;
}

/** Undefined for text that counts no attempt. */
export function readAttempt(text: string): number | undefined {
  return ATTEMPT.test(text) ? Number(text) : undefined;
}

/**
 * Nothing of it is stored: every process computes the same key, also after the stores lost everything. Each part is hashed with its
 * length in bytes before it, so that no two references share a text; without a client its length is missing as well. The references of
 * `adopter`, if there is one, are computed without a client (`idempay adopt`). docs/reference/references.md has a test vector.
 */
export function createComputeKey(deploymentId: string, adopter?: string): ComputeKey {
  const start = partOf(deploymentId);
  return ({ text, attempt, client }) => {
    const clientPart = client === undefined || client === adopter ? '-' : partOf(client);
    // One call for one text: several updates of a hash would cost more than the hash.
    const parts = start + clientPart + partOf(text) + partOf(String(attempt));
    return computedKeyOf(parts);
  };
}
