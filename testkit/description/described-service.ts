import type { ErrorObject, ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { PROBLEMS } from '#idempay/http/errors/catalogue.js';
import { reasonPhrase } from '#idempay/http/errors/public-error.js';
import type { MediaType, OpenApiDocument, Operation, Parameter, Response } from '#idempay/http/openapi/openapi.js';
import { type Answer, ask } from '../client/http-client.js';

/** An operation as a description has it. */
export interface DescribedOperation extends Omit<Operation, 'parameters'> {
  readonly method: string;
  /** With `{name}` for what a path holds. */
  readonly path: string;
  /** Includes the parameters of its path, without references. */
  readonly parameters: readonly Parameter[];
}

/** The purpose of a request: an operation, or the description's part on all others. */
export type Purpose =
  | { readonly kind: 'operation'; readonly operation: DescribedOperation }
  | { readonly kind: 'unknown path' }
  | { readonly kind: 'wrong method'; readonly path: string };

/** Headers of HTTP itself; the description has none of them. */
const HTTP_HEADERS = ['date', 'connection', 'keep-alive', 'content-length', 'content-type', 'transfer-encoding'];
/** Headers that only the response `default` has. It shares its other headers with every answer, and `Cache-Control` with every error. */
const OF_ANY_REQUEST = ['allow', 'retry-after'];
const OF_ERRORS = ['cache-control'];
/** Only the errors of these operations have the member `charge`. */
const OF_CHARGES = ['generateKey', 'pay', 'getPaymentStatus', 'getPaymentStatusHead', 'cancelPayment'];
/** `default` has them for what is no operation. */
const NOT_AN_OPERATION = [404, 405];
const PROBLEM_TYPE = 'application/problem+json';
const JSON_TYPES = ['application/json; charset=utf-8', PROBLEM_TYPE];

/** The description as a service serves it, and whether answers keep to it. */
export class DescribedService {
  readonly operations: readonly DescribedOperation[];
  /** How often each response was seen, by its place in the description. */
  readonly seen = new Map<string, number>();
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true });
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(readonly document: OpenApiDocument) {
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(document as object, 'description');
    this.operations = Object.entries(document.paths).flatMap(([path, { parameters: shared, ...methods }]) =>
      Object.entries(methods).map(([method, described]) => {
        const operation = described as Operation;
        const parameters = [...shared, ...operation.parameters].map((parameter) => this.resolve<Parameter>(parameter));
        return { ...operation, method: method.toUpperCase(), path, parameters };
      }),
    );
  }

  static async at(url: string): Promise<DescribedService> {
    const { status, text } = await ask(`${url}/openapi-all.json`);
    if (status !== 200) throw new Error(`/openapi-all.json answered ${status}: ${text}`);
    return new DescribedService(JSON.parse(text));
  }

  /** The places of all responses, each in its operation. */
  responses(): string[] {
    return this.operations.flatMap((operation) =>
      Object.keys(operation.responses).map((status) => placeOf(operation, status)),
    );
  }

  /** The value at a place, or the value that it refers to, with the place of that value. */
  #part<T>(place: string): { pointer: string; part: T } {
    const found = at(this.document, place) as { $ref?: string } | undefined;
    if (!found) throw new Error(`the description has nothing at ${place}`);
    return found.$ref === undefined ? { pointer: place, part: found as T } : this.#part(found.$ref);
  }

  /** The target of a reference, or the value itself. */
  resolve<T>(thing: object): T {
    if (!('$ref' in thing)) return thing as T;
    return at(this.document, String(thing.$ref)) as T;
  }

  /** The differences from the description; none is good. */
  problems(purpose: Purpose, answer: Answer, isHead: boolean): string[] {
    const found = this.#responseTo(purpose, answer.status);
    if (!found) return [`the status ${answer.status} is not described`];
    const { place, whole } = found;
    this.seen.set(place, (this.seen.get(place) ?? 0) + 1);
    const { pointer, part: response } = this.#part<Response>(place);
    const headers = [...this.#headersOf(response), ...this.#headersOfEvery(whole, response, answer.status)];
    return [
      ...this.#headerProblems(headers, answer),
      ...this.#bodyProblems(purpose, pointer, response, answer, isHead),
      ...(purpose.kind === 'wrong method' ? this.#allowProblems(purpose.path, answer) : []),
    ];
  }

  /** The place of the response, and the place of the one that has the headers of every answer of the operation. */
  #responseTo(purpose: Purpose, status: number): { place: string; whole: string } | undefined {
    // The head of a request, and a limit, refuse alike, whatever it asks for: as any operation says.
    const operation = purpose.kind === 'operation' ? purpose.operation : this.operation('getMetrics');
    const whole = placeOf(operation, 'default');
    const isOwn = purpose.kind === 'operation' || [400, 429].includes(status);
    if (isOwn && String(status) in operation.responses) return { place: placeOf(operation, status), whole };
    const others = this.#statusesOf(this.#part<Response>(whole).part);
    const isOther = purpose.kind === 'operation' && NOT_AN_OPERATION.includes(status);
    return others.includes(status) && !isOther ? { place: whole, whole } : undefined;
  }

  /** The statuses of a response that is for several: its schema names them. */
  #statusesOf({ content }: Response): readonly number[] {
    const schema = this.resolve<{
      allOf: [object, { properties: { status: { enum: number[] } } }];
    }>(content?.['application/json']?.schema ?? {});
    return schema.allOf[1].properties.status.enum;
  }

  operation(id: string): DescribedOperation {
    const operation = this.operations.find(({ operationId }) => operationId === id);
    if (!operation) throw new Error(`the description has no operation ${id}`);
    return operation;
  }

  #allowProblems(path: string, { status, headers }: Answer): string[] {
    if (status !== 405) return [];
    const methods = this.operations.filter((operation) => operation.path === path).map(({ method }) => method);
    const allow = methods.sort().join(', ');
    return headers.allow === allow ? [] : [`Allow is ${headers.allow}, and described are ${allow}`];
  }

  /** With the references followed, as a reader of the description does. */
  #headersOf({ headers = {} }: Response): DescribedHeader[] {
    return Object.entries(headers).map(([name, { $ref }]) => {
      const { pointer, part } = this.#part<{ required: boolean; schema: object }>($ref);
      return { ...part, name: name.toLowerCase(), pointer: `${pointer}/schema` };
    });
  }

  #headersOfEvery(place: string, own: Response, status: number): DescribedHeader[] {
    const whole = this.#part<Response>(place).part;
    if (whole === own) return [];
    const instead = Object.keys(own.headers ?? {}).map((name) => name.toLowerCase());
    const leftOut = [...OF_ANY_REQUEST, ...instead, ...(status < 400 ? OF_ERRORS : [])];
    return this.#headersOf(whole).filter(({ name }) => !leftOut.includes(name));
  }

  #headerProblems(described: readonly DescribedHeader[], { headers }: Answer): string[] {
    const known = [...HTTP_HEADERS, ...described.map(({ name }) => name)];
    const problems = Object.keys(headers)
      .filter((name) => !known.includes(name))
      .map((name) => `the header ${name} is not described`);
    // Optional in the description, for generated clients behind a gateway that strips it (rule P23).
    if (headers.idempay === undefined) problems.push('the header Idempay is missing');
    for (const { name, required, schema, pointer } of described) {
      const value = headers[name];
      if (value === undefined) {
        if (required) problems.push(`the header ${name} is missing`);
        continue;
      }
      const isNumber = 'type' in schema && schema.type === 'integer';
      const errors = this.#errors(pointer, isNumber ? Number(value) : value);
      if (errors) problems.push(`the header ${name}: ${value} ${errors}`);
    }
    return problems;
  }

  #bodyProblems(purpose: Purpose, pointer: string, { content }: Response, answer: Answer, isHead: boolean): string[] {
    const { status, text, headers } = answer;
    const contentType = headers['content-type'];
    if (isHead || !content) return text === '' ? [] : [`a body of ${text.length} characters is not described`];
    const mediaType = contentType?.split(';')[0] ?? '';
    if (!(mediaType in content)) return [`the media type ${contentType} is not described`];
    if (!mediaType.endsWith('json') || mediaType.includes('ndjson')) return [];
    if (!JSON_TYPES.includes(contentType ?? '')) return [`the content type is ${contentType}`];
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      return ['the body is not JSON'];
    }
    const errors = this.#errors(`${pointer}/content/${escaped(mediaType)}/schema`, body);
    if (errors) return [`the body ${errors}`];
    return status < 400 ? [] : this.#saidProblems(purpose, content, status, body as ErrorBody | ProblemBody);
  }

  #saidProblems(
    purpose: Purpose,
    content: NonNullable<Response['content']>,
    status: number,
    body: ErrorBody | ProblemBody,
  ): string[] {
    const error = 'type' in body ? plainOf(body) : body;
    return [
      ...this.#errorProblems(content['application/json'] ?? { schema: {} }, status, error),
      ...this.#parameterProblems(purpose, error),
      ...('type' in body ? this.#typeProblems(purpose, body) : []),
    ];
  }

  /** The one example of a parameter that stands there twice is for each parameter of the query. */
  #parameterProblems(purpose: Purpose, { message }: ErrorBody): string[] {
    const [, repeated] = TWICE.exec(message) ?? [];
    if (repeated === undefined) return [];
    const known = purpose.kind === 'operation' ? purpose.operation.parameters : [];
    const isKnown = known.some((parameter) => parameter.in === 'query' && parameter.name === repeated);
    return isKnown ? [] : [`the parameter ${repeated} is not described`];
  }

  /** An entry of the catalogue has this type, status and title. Only errors of payments have `charge`. */
  #typeProblems(purpose: Purpose, { type, title, status, charge }: ProblemBody): string[] {
    const known = Object.values(PROBLEMS).find(({ name }) => type === `/problems#${name}`);
    if (!known) return [`the type ${type} is unknown`];
    const isPayment = purpose.kind === 'operation' && OF_CHARGES.includes(purpose.operation.operationId);
    return [
      ...(known.title === title ? [] : [`the type ${type} has another title`]),
      ...(known.status === status || known.status === 'several' ? [] : [`the type ${type} has another status`]),
      ...(charge === undefined || isPayment ? [] : ['an error that is not of a payment has a charge']),
    ];
  }

  #errorProblems({ schema, examples = {} }: MediaType, status: number, body: ErrorBody): string[] {
    if (body.status !== status) return [`the body has the status ${body.status}`];
    const ofSchema = this.resolve<{ examples?: ErrorBody[] }>(schema).examples ?? [];
    const described = Object.values(examples)
      .map((example) => this.resolve<{ value: ErrorBody }>(example).value)
      .concat(ofSchema)
      .filter((value) => value.status === status);
    const isDescribed = described.some(
      ({ error, message }) => error === body.error && textShape(message) === textShape(body.message),
    );
    return isDescribed ? [] : ['the error text is not described'];
  }

  #errors(pointer: string, value: unknown): string | undefined {
    const $ref = `description${pointer}`;
    const validate = this.#validators.get($ref) ?? this.#ajv.compile({ $ref });
    this.#validators.set($ref, validate);
    if (validate(value)) return undefined;
    return (validate.errors ?? [])
      .map(({ instancePath, message }: ErrorObject) => `${instancePath} ${message}`)
      .join(', ');
  }
}

interface DescribedHeader {
  readonly name: string;
  readonly required: boolean;
  readonly schema: object;
  /** The place of its schema. */
  readonly pointer: string;
}

interface ErrorBody {
  readonly status: number;
  readonly error: string;
  readonly message: string;
}

interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly charge?: string;
}

/** The same error in the other form. */
function plainOf({ status, detail }: ProblemBody): ErrorBody {
  return { status, error: reasonPhrase(status), message: detail };
}

const TWICE = /^'(.*)' in the querystring may be sent only once\.$/s;

/** The part that is the same in every text of one kind: without quoted parts, numbers, and names in capitals. */
export function textShape(message: string): string {
  return message
    .replace(/^Payment declined: .*/s, 'Payment declined: ')
    .replace(/^(Key|Webhook) '.*' not found\.$/s, "$1 '' not found.")
    .replace(TWICE, "'' in the querystring may be sent only once.")
    .replace(/'.*?' (is not a query parameter|appears in the body|appears more than once)/s, "'' $1")
    .replace(/Use [A-Z, ]+\.$/, 'Use GET.')
    .replace(/\d+/g, '0')
    .replace(/\b[A-Z]{3}\b/g, 'AAA');
}

function placeOf({ path, method }: DescribedOperation, status: number | string): string {
  return `#/paths/${escaped(path)}/${method.toLowerCase()}/responses/${status}`;
}

const escaped = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1');

function at(document: object, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .reduce<unknown>(
      (part, name) => (part as Record<string, unknown> | undefined)?.[name.replaceAll('~1', '/').replaceAll('~0', '~')],
      document,
    );
}
