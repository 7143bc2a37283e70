import type { ErrorObject, ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { OpenApiDocument, Operation, Parameter, Response } from '#idempay/http/openapi/openapi.js';
import { type Answer, ask } from '../client/http-client.js';

/** An operation as `/openapi.json` describes it. */
export interface DescribedOperation extends Omit<Operation, 'parameters'> {
  readonly method: string;
  /** With `{name}` for what a path holds. */
  readonly path: string;
  /** Those of its path too, without references. */
  readonly parameters: readonly Parameter[];
}

/** What a request is for: an operation, or what the description says of all others. */
export type Purpose =
  | { readonly kind: 'operation'; readonly operation: DescribedOperation }
  | { readonly kind: 'unknown path' }
  | { readonly kind: 'wrong method'; readonly path: string };

/** Headers of HTTP itself; the description has none of them. */
const HTTP_HEADERS = ['date', 'connection', 'keep-alive', 'content-length', 'content-type', 'transfer-encoding'];
const ERROR_TYPE = 'application/json; charset=utf-8';

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
    const { status, text } = await ask(`${url}/openapi.json`);
    if (status !== 200) throw new Error(`/openapi.json answered ${status}: ${text}`);
    return new DescribedService(JSON.parse(text));
  }

  /** The places of all responses. */
  responses(): string[] {
    const own = this.operations.flatMap((operation) =>
      Object.keys(operation.responses).map((status) => `${pointerTo(operation)}/responses/${status}`),
    );
    const shared = Object.keys(this.document.components.responses ?? {});
    return [
      ...own.filter((pointer) => !pointer.endsWith('/default')),
      ...shared.map((name) => `#/components/responses/${name}`),
    ];
  }

  /** What a reference refers to, or the thing itself. */
  resolve<T>(thing: object): T {
    if (!('$ref' in thing)) return thing as T;
    return at(this.document, String(thing.$ref)) as T;
  }

  /** What is not as the description says; none is good. */
  problems(purpose: Purpose, answer: Answer, isHead: boolean): string[] {
    const found = this.#responseTo(purpose, answer.status);
    if (!found) return [`the status ${answer.status} is not described`];
    const { pointer, response } = found;
    this.seen.set(pointer, (this.seen.get(pointer) ?? 0) + 1);
    return [
      ...this.#headerProblems(response, answer),
      ...this.#bodyProblems(pointer, response, answer, isHead),
      ...(purpose.kind === 'wrong method' ? this.#allowProblems(purpose.path, answer) : []),
    ];
  }

  #responseTo(purpose: Purpose, status: number): { pointer: string; response: Response } | undefined {
    for (const [described, pointer] of this.#responses(purpose, status)) {
      if (!described.includes(status)) continue;
      const response = at(this.document, pointer) as Response | undefined;
      if (response) return { pointer, response };
    }
    return undefined;
  }

  #responses(purpose: Purpose, status: number): [statuses: readonly number[], pointer: string][] {
    const anyRequest = '#/components/responses/AnyRequest';
    const always: [readonly number[], string] = [statusesOf(at(this.document, anyRequest) as Response), anyRequest];
    if (purpose.kind === 'operation')
      return [[[status], `${pointerTo(purpose.operation)}/responses/${status}`], always];
    // The head of a request, and a limit, refuse alike, whatever it asks for: as any operation says.
    const common = `${pointerTo(this.operation('getMetrics'))}/responses/${status}`;
    const own =
      purpose.kind === 'wrong method' ? ([[405], 'MethodNotAllowed'] as const) : ([[404], 'UnknownPath'] as const);
    return [[own[0], `#/components/responses/${own[1]}`], always, [[400, 429], common]];
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

  #headerProblems(response: Response, { headers }: Answer): string[] {
    const described = Object.entries(response.headers).map(([name, reference]) => {
      const { $ref } = reference;
      return { name: name.toLowerCase(), $ref, ...this.resolve<{ required: boolean; schema: object }>(reference) };
    });
    const known = [...HTTP_HEADERS, ...described.map(({ name }) => name)];
    const problems = Object.keys(headers)
      .filter((name) => !known.includes(name))
      .map((name) => `the header ${name} is not described`);
    // Optional in the description, for generated clients behind a gateway that strips it (decisions P23).
    if (headers.idempay === undefined) problems.push('the header Idempay is missing');
    for (const { name, required, schema, $ref } of described) {
      const value = headers[name];
      if (value === undefined) {
        if (required) problems.push(`the header ${name} is missing`);
        continue;
      }
      const isNumber = 'type' in schema && schema.type === 'integer';
      const errors = this.#errors(`${$ref}/schema`, isNumber ? Number(value) : value);
      if (errors) problems.push(`the header ${name}: ${value} ${errors}`);
    }
    return problems;
  }

  #bodyProblems(pointer: string, { content }: Response, answer: Answer, isHead: boolean): string[] {
    const { status, text, headers } = answer;
    const contentType = headers['content-type'];
    if (isHead || !content) return text === '' ? [] : [`a body of ${text.length} characters is not described`];
    const mediaType = contentType?.split(';')[0] ?? '';
    if (!(mediaType in content)) return [`the media type ${contentType} is not described`];
    if (!mediaType.endsWith('json') || mediaType.includes('ndjson')) return [];
    if (contentType !== ERROR_TYPE) return [`the content type is ${contentType}`];
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      return ['the body is not JSON'];
    }
    const errors = this.#errors(`${pointer}/content/${escaped(mediaType)}/schema`, body);
    if (errors) return [`the body ${errors}`];
    return status < 400 ? [] : this.#errorProblems(content[mediaType]?.examples ?? {}, status, body as ErrorBody);
  }

  #errorProblems(examples: object, status: number, body: ErrorBody): string[] {
    if (body.status !== status) return [`the body has the status ${body.status}`];
    const described = Object.values(examples)
      .map((example) => this.resolve<{ value: ErrorBody }>(example).value)
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

interface ErrorBody {
  readonly status: number;
  readonly error: string;
  readonly message: string;
}

/** What is the same in every text of one kind: without what is quoted, numbers, and names in capitals. */
export function textShape(message: string): string {
  return message
    .replace(/^Payment declined: .*/s, 'Payment declined: ')
    .replace(/^Key '.*' not found\.$/s, "Key '' not found.")
    .replace(/'.*?' (is not a query parameter|appears in the body|appears more than once)/s, "'' $1")
    .replace(/Use [A-Z, ]+\.$/, 'Use GET.')
    .replace(/\d+/g, '0')
    .replace(/\b[A-Z]{3}\b/g, 'AAA');
}

function pointerTo({ path, method }: DescribedOperation): string {
  return `#/paths/${escaped(path)}/${method.toLowerCase()}`;
}

/** Those of the response that is for several: its schema names them. */
function statusesOf({ content }: Response): readonly number[] {
  const schema = content?.['application/json']?.schema as {
    allOf: [object, { properties: { status: { enum: number[] } } }];
  };
  return schema.allOf[1].properties.status.enum;
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
