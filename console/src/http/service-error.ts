import { messageOf, provenMessageOf } from '@idempay/client/proof';

/** A refusal of the service itself, in its words (rule P23). */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Headers,
    /** True if it proves that a request that would change something did nothing. */
    readonly isProven: boolean,
  ) {
    super(message);
  }
}

/** No answer of the service arrived, or not all of it: the result of the request is not known. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  constructor(
    cause: unknown,
    message = 'The service cannot be reached. Check that it runs and that this machine reaches it.',
  ) {
    super(message, { cause });
  }
}

/** A gateway between this page and the service answered by itself, before or after the service saw the request. */
export function foreignAnswer(status: number): Unreachable {
  return new Unreachable(
    undefined,
    `An answer ${status} came that is not the service's own. Check what is between this page and the service.`,
  );
}

/** For a person: the sentence of the service, or what went wrong on the way. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Error && error.message !== '') return error.message;
  return 'Something went wrong that has no description. Reload the page.';
}

/** True if a request that was to change something may have done so all the same. */
export function mayHaveArrived(error: unknown): boolean {
  return error instanceof ServiceError ? error.status >= 500 || !error.isProven : error instanceof Unreachable;
}

/** The pause that the service asks for before the next request; 0 if it asks for none. */
export function retryAfterMs(error: unknown): number {
  if (!(error instanceof ServiceError) || (error.status !== 429 && error.status !== 503)) return 0;
  return Number(error.headers.get('retry-after')) * 1_000 || 0;
}

/** True if an error only says that we ended the request ourselves. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export async function errorOf(response: Response): Promise<ServiceError | Unreachable> {
  const { status, headers } = response;
  const answer = { status, headers, text: await response.text().catch(() => '') };
  const message = messageOf(answer);
  if (message === undefined) return foreignAnswer(status);
  return new ServiceError(status, message, headers, provenMessageOf(answer) !== undefined);
}
