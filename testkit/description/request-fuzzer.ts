import { METHODS } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Answer, Ask } from '../client/http-client.js';
import { nested } from '../client/payment-bodies.js';
import type { Random } from '../random.js';
import type { DescribedOperation, DescribedService, Purpose } from './described-service.js';

type Headers = Record<string, string | string[]>;

/** A request that is about to be sent; what breaks it changes it. */
export interface Draft {
  purpose: Purpose;
  method: string;
  target: string;
  headers: Headers;
  body: Ask['body'];
  /** The part of it that was broken. */
  readonly broken: string[];
}

/** Credentials to choose from: those that may do everything, and others that may do too little. */
export interface Credentials {
  readonly whole: Headers;
  readonly others: readonly Headers[];
}

/** As many of each kind as are remembered, so that requests meet at them. */
const REMEMBERED = 40;
const JUNK_TEXTS = [
  '',
  ' ',
  '0',
  '-1',
  '007',
  '1.5',
  '99999999999999999999',
  'PAID',
  'null',
  '*',
  '"',
  '""',
  '\'"',
  'ü',
  '😀',
  'a,b',
  '../..',
  '\u0000',
  'x'.repeat(2_000),
];
const JUNK_HEADERS = [
  '',
  ' ',
  'x',
  '"',
  '""',
  '*',
  'W/"x"',
  '"a", "b"',
  ', ,',
  'wait=',
  'wait=0',
  'wait=1, wait=2',
  'é',
  '\t',
  'x'.repeat(2_000),
];
const JUNK_VALUES = [
  'null',
  'true',
  '0',
  '-1',
  '1e2',
  '1.005',
  '""',
  '"x"',
  '"😀"',
  '"\\ud800"',
  '[]',
  '{}',
  '12345678901234567890',
  '"0x10"',
  '"PAID"',
];
const JUNK_BODIES: readonly Ask['body'][] = [
  '',
  'null',
  '[]',
  '{',
  '{"a":1,}',
  '"x"',
  '7',
  ' ',
  '{"a":1}{',
  nested(70),
  `{"x":${nested(70)}}`,
  Buffer.from([0xff]),
  Buffer.from('{"a":"\xff"}', 'latin1'),
  'x'.repeat(17_000),
  ' '.repeat(17_000),
];
const JUNK_TYPES = [
  '',
  'text/plain',
  'application/json; charset=latin1',
  'application/JSON; charset=UTF-8',
  'application/problem+json',
  'multipart/form-data',
  'json',
  'application/json, application/json',
];
const UNKNOWN_PATHS = [
  '/',
  '/api',
  '/api/nothing',
  '/api/payment/',
  '/API/payment',
  '/docs/a/b',
  '//',
  '/api/transactions/1/2/3',
  '/api/payments/x/y',
  '/openapi.yaml',
  '/..;/',
  '/api%2Fpayment',
  '/favicon.ico',
];
const UNKNOWN_METHODS = ['BREW', 'PAY'];
const CHANGING = ['Payments', 'Payment records', 'Transactions'];
/** Mistakes that every operation answers alike. */
const RARE = ['unknown method', 'unknown path', 'long target', 'large headers', 'host', 'expectation', 'path encoding'];
const OF_BODY = ['body', 'member', 'member', 'member'];
const UNFRAMED = ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'];

/** Good and broken requests for every operation of a description, chosen by a seed. */
export class RequestFuzzer {
  readonly #keys: string[] = [];
  readonly #ids: string[] = [];
  readonly #tags: string[] = [];
  /** Those whose answers depend on what was done before are asked for more often. */
  readonly #changing: readonly DescribedOperation[];

  constructor(
    private readonly service: DescribedService,
    private readonly random: Random,
    private readonly credentials: Credentials,
  ) {
    this.#changing = service.operations.filter(({ tags }) => tags.some((tag) => CHANGING.includes(tag)));
  }

  next(): Draft {
    const operation = this.random.pick(this.random.below(4) === 0 ? this.service.operations : this.#changing);
    const draft = this.#good(operation);
    while (this.random.below(2) === 0) this.#break(draft, operation);
    return this.#framed(draft);
  }

  /** A request for the operation that nothing breaks. */
  whole(operation: DescribedOperation): Draft {
    return this.#framed(this.#good(operation));
  }

  #framed(draft: Draft): Draft {
    // For these Node's client sends a body without its length, which makes it the next request.
    const { method, body, headers } = draft;
    if (body !== undefined && UNFRAMED.includes(method)) headers['Content-Length'] = String(Buffer.byteLength(body));
    return draft;
  }

  /** Values from answers that later requests need. */
  learn({ status, headers, text }: Answer): void {
    if (status === 200 && /^"[0-9a-f-]{36}"$/.test(text)) remember(this.#keys, text.slice(1, -1));
    if (status === 201 && headers.location) remember(this.#ids, headers.location.split('/').at(-1) ?? '');
    if (headers.etag) remember(this.#tags, headers.etag);
  }

  #good(operation: DescribedOperation): Draft {
    const { method, path, parameters, requestBody } = operation;
    const headers: Headers = { ...this.credentials.whole };
    if (this.random.below(2) === 0) headers.Accept = 'application/problem+json';
    const query = new URLSearchParams();
    let target = path;
    for (const { name, in: place, required, schema, example } of parameters) {
      if (place !== 'path' && !required && this.random.below(10) > 2) continue;
      const value = this.#valueOf(name, schema, example);
      if (place === 'path') target = target.replace(`{${name}}`, encodeURIComponent(value));
      else if (place === 'query') query.set(name, value);
      else headers[name] = value;
    }
    const body = requestBody && this.#bodyOf(requestBody);
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const search = String(query);
    if (search !== '') target += `?${search}`;
    return { purpose: { kind: 'operation', operation }, method, target, headers, body, broken: [] };
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a list of kinds of values in the order in which they are tried, one line each.
  #valueOf(name: string, schema: object, example: unknown): string {
    const {
      enum: values,
      anyOf,
      minimum,
      maximum,
      format,
    } = this.service.resolve<{
      enum?: string[];
      anyOf?: object[];
      minimum?: number;
      maximum?: number;
      format?: string;
    }>(schema);
    const { random } = this;
    if (/^(key|Idempotency-Key|cursor)$/.test(name) && format !== 'int64' && this.#keys.length > 0) {
      const key = random.pick(this.#keys);
      return random.pick([key, key, key, key.toUpperCase(), name === 'Idempotency-Key' ? `"${key}"` : key]);
    }
    if (format === 'int64' && this.#ids.length > 0) return random.pick(this.#ids);
    if (name.startsWith('If-') && this.#tags.length > 0) return random.pick([...this.#tags, '*', '"other"']);
    if (name === 'Prefer')
      return random.pick([
        'wait=1',
        'respond-async',
        'wait="1"',
        'return=representation',
        'return=representation, wait=1',
      ]);
    if (name === 'day') return random.pick([new Date().toISOString().slice(0, 10), '2026-01-01', String(example)]);
    if (values) return random.pick(values);
    if (anyOf) return random.pick(['2026-01-01', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00+01:00']);
    if (maximum !== undefined) return String((minimum ?? 0) + random.below(maximum - (minimum ?? 0) + 1));
    if (example !== undefined) return String(example);
    return format === 'uuid' ? '01936d5e-7c1a-7f3e-8b5a-2f6c1d9e4b70' : `text ${random.below(3)}`;
  }

  /** One of the examples, with random values for an account, an amount and a status. */
  #bodyOf(requestBody: object): string {
    const { content } = requestBody as { content: Record<string, { examples: Record<string, { value: object }> }> };
    const [media] = Object.values(content);
    const { value } = this.random.pick(Object.values(media?.examples ?? {}));
    const changed: Record<string, unknown> = { ...value };
    if ('fromAccount' in changed) changed.fromAccount = `account ${this.random.below(50)}`;
    if ('amount' in changed) changed.amount = String(1 + this.random.below(9));
    if ('status' in changed) changed.status = this.random.pick(['FLAGGED', 'COMPLETED', 'ON_HOLD', 'CANCELLED']);
    return JSON.stringify(changed);
  }

  #break(draft: Draft, operation: DescribedOperation): void {
    const { random } = this;
    const breakers: Readonly<Record<string, () => void>> = {
      credentials: () => {
        delete draft.headers.Authorization;
        if (this.credentials.others.length > 0) Object.assign(draft.headers, random.pick(this.credentials.others));
      },
      'method of another operation': () => this.#anotherMethod(draft, operation, random.pick(METHODS)),
      'unknown method': () => this.#anotherMethod(draft, operation, random.pick(UNKNOWN_METHODS)),
      'unknown path': () => {
        draft.target = random.pick(UNKNOWN_PATHS);
        draft.purpose = { kind: 'unknown path' };
      },
      'path encoding': () => {
        const [path = '', ...search] = draft.target.split('?');
        draft.target = [path.replace(/[^/]*$/, '%zz'), ...search].join('?');
      },
      'part of the path': () => {
        const { name } = operation.parameters.find((parameter) => parameter.in === 'path') ?? {};
        if (name === undefined || draft.purpose.kind === 'unknown path') return;
        const filled = operation.path.replace(`{${name}}`, encodeURIComponent(random.pick(JUNK_TEXTS)));
        draft.target = filled.replace(/\{.*?\}/g, '1');
      },
      'long target': () => {
        draft.target += `${draft.target.includes('?') ? '&' : '?'}x=${'x'.repeat(10_000)}`;
      },
      query: () => {
        const names = operation.parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
        const name = random.pick([...names, ...names, 'unknown', 'a[b]', '__proto__']);
        const pair = `${name}=${encodeURIComponent(random.pick(JUNK_TEXTS))}`;
        const pairs = random.below(3) === 0 ? `${pair}&${pair}` : random.pick([pair, name, `${name}=%`, `&&${pair}`]);
        draft.target += `${draft.target.includes('?') ? '&' : '?'}${pairs}`;
      },
      header: () => {
        const names = operation.parameters.filter((parameter) => parameter.in === 'header').map(({ name }) => name);
        const value = random.pick(JUNK_HEADERS);
        draft.headers[random.pick(names)] = random.below(5) === 0 ? [value, value] : value;
      },
      'missing header': () => {
        const { name } = random.pick(operation.parameters.filter((parameter) => parameter.in === 'header'));
        delete draft.headers[name];
      },
      'large headers': () => {
        draft.headers['X-Large'] = 'x'.repeat(20_000);
      },
      host: () => {
        draft.headers.Host = random.pick(['other.example', 'a b', 'localhost', '[::1]:80', '127.0.0.1:x']);
      },
      expectation: () => {
        draft.headers.Expect = random.pick(['100-continue', 'more']);
      },
      'content type': () => {
        const type = random.pick(JUNK_TYPES);
        if (type === '') delete draft.headers['Content-Type'];
        else draft.headers['Content-Type'] = type;
      },
      'content encoding': () => {
        draft.headers['Content-Encoding'] = random.pick(['gzip', 'identity', 'br']);
        if (typeof draft.body === 'string' && random.below(2) === 0) draft.body = gzipSync(draft.body);
      },
      body: () => {
        draft.body = random.pick(JUNK_BODIES);
        if (random.below(4) > 0) draft.headers['Content-Type'] = 'application/json';
      },
      member: () => {
        if (typeof draft.body === 'string') draft.body = this.#otherMember(draft.body);
      },
    };
    const isRare = random.below(8) === 0;
    const usual = Object.keys(breakers).filter((each) => !RARE.includes(each));
    // The parts that the operation reads are broken most often.
    const own = operation.parameters.flatMap(
      (parameter) => ({ path: 'part of the path', query: 'query', header: 'header' })[parameter.in],
    );
    const name = random.pick(isRare ? RARE : [...usual, ...own, ...(operation.requestBody ? OF_BODY : [])]);
    breakers[name]?.();
    draft.broken.push(name);
  }

  #anotherMethod(draft: Draft, { path }: DescribedOperation, method: string): void {
    if (method === 'CONNECT') return;
    draft.method = method;
    const operation = this.service.operations.find((other) => other.path === path && other.method === method);
    if (draft.purpose.kind === 'unknown path') return;
    draft.purpose = operation ? { kind: 'operation', operation } : { kind: 'wrong method', path };
  }

  /** Another value for a member, or the member twice, or not at all. */
  #otherMember(text: string): string {
    const { random } = this;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return text;
    }
    if (typeof value !== 'object' || value === null) return text;
    const pairs = Object.entries(value).map(([name, member]) => [JSON.stringify(name), JSON.stringify(member)]);
    if (pairs.length === 0) return text;
    const at = random.below(pairs.length);
    const [name = ''] = pairs[at] ?? [];
    const how = random.below(4);
    if (how === 0) pairs.splice(at, 1);
    else if (how === 1) pairs.push([name, random.pick(JUNK_VALUES)]);
    else pairs[at] = [name, random.pick(JUNK_VALUES)];
    return `{${pairs.map((pair) => pair.join(':')).join(',')}}`;
  }
}

function remember(values: string[], value: string): void {
  values.push(value);
  if (values.length > REMEMBERED) values.shift();
}
