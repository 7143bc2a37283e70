import { reasonPhrase } from '../errors/public-error.js';
import { type MediaType, type Operation, type Parameter, type Reference, type Response, reference } from './openapi.js';

type Kind = 'examples' | 'parameters' | 'responses';
type Example = { readonly value: unknown } | Reference;

/** The parts that one operation has for itself, in the places where they may stand. */
export interface WholeOperation extends Omit<Operation, 'parameters' | 'responses'> {
  readonly parameters: readonly Parameter[];
  readonly responses: Readonly<Record<string, Response>>;
}

/**
 * Parts that several operations have alike: whole responses, examples of errors, parameters. Each becomes one component, and the operations
 * refer to it. If several parts have one name, the most frequent one keeps it; to another one's name, the first operation that has it is
 * appended.
 */
export class SharedParts {
  readonly #components: Record<Kind, Record<string, object>> = { examples: {}, parameters: {}, responses: {} };
  readonly #names = new Map<string, string>();
  /** Texts of parts, also of parts that are not shared. */
  readonly #seen = new Set<string>();

  /** Operations of a later call refer to the parts that operations of earlier calls share, and never change them. */
  constructor(...groups: readonly (readonly WholeOperation[])[]) {
    for (const group of groups) this.#share(group);
  }

  get components(): Readonly<Record<Kind, Readonly<Record<string, object>>>> {
    return this.#components;
  }

  /** The same operation, with references. */
  refer({ parameters, responses, ...operation }: WholeOperation): Operation {
    return {
      ...operation,
      parameters: parameters.map((parameter) => this.#refer('parameters', parameter)),
      responses: Object.fromEntries(
        Object.entries(responses).map(([status, response]) => [
          status,
          this.#refer('responses', this.#withExamples(response)),
        ]),
      ),
    };
  }

  #share(operations: readonly WholeOperation[]): void {
    const parameters = operations.flatMap(({ operationId, parameters: own }) =>
      own.map((parameter) => ({ name: parameter.name, operationId, part: parameter })),
    );
    this.#name('parameters', parameters);
    const responses = operations.flatMap(({ operationId, responses: own }) =>
      Object.entries(own).map(([status, response]) => ({ name: nameOf(status, response), operationId, response })),
    );
    const different = new Map(responses.map((each) => [JSON.stringify(each.response), each]));
    const examples = [...different.values()].flatMap(({ operationId, response }) =>
      Object.values(response.content ?? {}).flatMap(({ examples: own = {} }) =>
        Object.entries(own).map(([name, part]) => ({ name, operationId, part })),
      ),
    );
    this.#name('examples', examples);
    this.#name(
      'responses',
      responses.map(({ response, ...rest }) => ({ ...rest, part: this.#withExamples(response) })),
    );
  }

  #name(kind: Kind, all: readonly { name: string; operationId: string; part: object }[]): void {
    const alike = new Map<string, { name: string; operationId: string; part: object; count: number }>();
    for (const each of all) {
      const text = textOf(kind, each.part);
      const first = alike.get(text);
      if (first) first.count += 1;
      else alike.set(text, { ...each, count: 1 });
    }
    const components = this.#components[kind];
    for (const [text, first] of [...alike].toSorted(([, one], [, other]) => other.count - one.count)) {
      const { name, operationId, part, count } = first;
      if (this.#seen.has(text)) continue;
      this.#seen.add(text);
      if (count < 2) continue;
      const free = name in components ? `${name}-${operationId}` : name;
      if (free in components) throw new Error(`two components of the description have the name ${free}`);
      components[free] = part;
      this.#names.set(text, free);
    }
  }

  #withExamples(response: Response): Response {
    const { content } = response;
    if (!content) return response;
    const referring = ({ examples, ...media }: MediaType): MediaType => ({
      ...media,
      ...(examples && {
        examples: Object.fromEntries(
          Object.entries(examples).map(([name, example]) => [name, this.#refer<Example>('examples', example)]),
        ),
      }),
    });
    return {
      ...response,
      content: Object.fromEntries(Object.entries(content).map(([type, media]) => [type, referring(media)])),
    };
  }

  #refer<T extends object>(kind: Kind, part: T): T | Reference {
    const name = this.#names.get(textOf(kind, part));
    return name === undefined ? part : reference(kind, name);
  }
}

function textOf(kind: Kind, part: object): string {
  return `${kind} ${JSON.stringify(part)}`;
}

/** `NotFound`. The answers to HEAD have names of their own, because they have no body. */
function nameOf(status: string, { content }: Response): string {
  const phrase = status === 'default' ? 'AnyRequest' : reasonPhrase(Number(status)).replace(/[^A-Za-z]/g, '');
  return Number(status) >= 400 && !content ? `${phrase}WithoutBody` : phrase;
}

/** The components that something refers to, from `root` or from one of them. */
export function reachable(
  root: object,
  components: Readonly<Record<string, Readonly<Record<string, object>>>>,
): Record<string, Record<string, object>> {
  const reached: Record<string, Record<string, object>> = {};
  const waiting: object[] = [root];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    for (const [, kind = '', name = ''] of JSON.stringify(next).matchAll(/"#\/components\/(\w+)\/([\w.-]+)"/g)) {
      const part = components[kind]?.[name];
      if (!part) throw new Error(`the description has no component ${kind}/${name}`);
      reached[kind] ??= {};
      const ofKind = reached[kind];
      if (name in ofKind) continue;
      ofKind[name] = part;
      waiting.push(part);
    }
  }
  // In the order in which they were made, not in the order of the references.
  return Object.fromEntries(
    Object.entries(components)
      .filter(([kind]) => reached[kind])
      .map(([kind, all]) => [
        kind,
        Object.fromEntries(Object.entries(all).filter(([name]) => name in (reached[kind] ?? {}))),
      ]),
  );
}
