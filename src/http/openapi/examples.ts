import { publicErrorOf } from '../errors/errors.js';
import { PublicError, publicErrors } from '../errors/public-errors.js';
import { type JsonBody, readJsonBody } from '../requests/json-body.js';

/** The refusal that `read` has for something. A mistake of a description ends the start. */
export function refusalBy(read: () => unknown): PublicError {
  try {
    read();
  } catch (error) {
    if (error instanceof PublicError) return error;
    throw error;
  }
  throw new Error('the example of a refusal was not refused');
}

/** The refusals of bodies, by the names of their examples. */
export function refusalsOf(
  judge: (body: JsonBody) => unknown,
  bodies: Readonly<Record<string, string>>,
): Readonly<Record<string, PublicError>> {
  return Object.fromEntries(
    Object.entries(bodies).map(([name, text]) => [name, refusalBy(() => judge(readJsonBody(Buffer.from(text))))]),
  );
}

/** For a judge that returns its sentence. */
export function throwProblem(result: object): void {
  if ('problem' in result) throw publicErrors.invalidBody(String(result.problem));
}

/** What the framework says of a query in which `name` stands twice. */
export function repeatedParameter(name: string): PublicError {
  const message = 'a parameter of the query stands there twice';
  return publicErrorOf(
    Object.assign(new Error(message), {
      code: 'FST_ERR_VALIDATION',
      name: 'FastifyError',
      validation: [{ keyword: '', instancePath: `/${name}`, schemaPath: '', params: {} }],
      validationContext: 'querystring' as const,
    }),
  );
}
