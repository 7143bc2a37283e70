/** An answer that refuses, in the words of the service (its body has the three fields of spec 2.5). */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Headers,
  ) {
    super(message);
  }
}

/** No answer arrived, or not all of it. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  constructor(cause: unknown) {
    super('The service cannot be reached. Check that it runs and that this machine reaches it.', { cause });
  }
}

/** For a person: the sentence of the service, or what went wrong on the way. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Error && error.message !== '') return error.message;
  return 'Something went wrong that has no description. Reload the page.';
}

/** Whether an error only says that we ended the request ourselves. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export async function errorOf(response: Response): Promise<ServiceError> {
  const text = await response.text().catch(() => '');
  return new ServiceError(
    response.status,
    messageIn(text) ?? `The service answered ${response.status}.`,
    response.headers,
  );
}

/** A proxy may answer with a page of its own. */
function messageIn(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
