import luaparse, { type Node } from 'luaparse';

/** A value of Lua: nil is undefined, a table is an array (the scripts use lists only), a string is its text. */
export type LuaValue = string | number | boolean | undefined | LuaValue[] | { readonly err: string } | LuaFunction;

type LuaFunction = (...values: LuaValue[]) => LuaValue;

export type RedisCall = (command: string, ...values: LuaValue[]) => LuaValue;

export type LuaScript = (
  keys: readonly string[],
  parameters: readonly string[],
  redis: { readonly call: RedisCall; readonly pcall: RedisCall; error_reply(text: string): LuaValue },
) => LuaValue;

/** An error that `error` raised. */
class LuaError extends Error {
  constructor(readonly value: LuaValue) {
    super('a script raised an error that nothing of it caught');
  }
}

/** The return value of a Lua function that returns several values. */
class Several extends Array<LuaValue> {}

const library = {
  isTrue: (value: LuaValue) => value !== undefined && value !== false,
  and: (left: LuaValue, right: () => LuaValue) => (library.isTrue(left) ? right() : left),
  or: (left: LuaValue, right: () => LuaValue) => (library.isTrue(left) ? left : right()),
  first: (value: LuaValue) => (value instanceof Several ? value[0] : value),
  number(value: LuaValue): number {
    const number = typeof value === 'string' ? Number(value) : value;
    if (typeof number !== 'number' || Number.isNaN(number)) throw new Error(`arithmetic on ${String(value)}`);
    return number;
  },
  text(value: LuaValue): string {
    if (typeof value !== 'string' && typeof value !== 'number') throw new Error(`a text is made of ${String(value)}`);
    return String(value);
  },
  /** Lua compares two numbers or two strings, and refuses the rest. */
  isLess(left: LuaValue, right: LuaValue): boolean {
    if (typeof left === 'number' && typeof right === 'number') return left < right;
    if (typeof left === 'string' && typeof right === 'string') return left < right;
    throw new Error(`attempt to compare ${typeof left} with ${typeof right}`);
  },
  tonumber: (value: LuaValue) => {
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
    return typeof number === 'number' && !Number.isNaN(number) ? number : undefined;
  },
  list: (...values: LuaValue[]) => values.flatMap((value) => (value instanceof Several ? [...value] : [value])),
  type: (value: LuaValue) => (typeof value === 'object' ? 'table' : typeof value),
  unpack: (list: LuaValue[], from: number, to: number) => Several.from(list.slice(from - 1, to)),
  error(value: LuaValue): never {
    throw new LuaError(value);
  },
  /** Only what a script raises: what is wrong with a model must end the run. */
  pcall(run: LuaFunction, ...values: LuaValue[]): LuaValue {
    try {
      return Several.of(true, library.first(run(...values)));
    } catch (raised) {
      if (!(raised instanceof LuaError)) throw raised;
      return Several.of(false, raised.value);
    }
  },
  math: { floor: (value: LuaValue) => Math.floor(library.number(value)) },
  string: {
    sub: (text: string, from: number, to: number) => text.slice(from - 1, to),
    find: (text: string, what: string, from: number, _plain: boolean) => {
      const at = text.indexOf(what, from - 1);
      return at < 0 ? undefined : at + 1;
    },
    match(text: LuaValue, pattern: string): LuaValue {
      const [whole, ...groups] = patternOf(pattern).exec(library.text(text)) ?? [];
      return groups.length > 0 ? Several.from(groups) : whole;
    },
    format(pattern: string, value: LuaValue): string {
      if (pattern !== '%.0f') throw new Error(`no such format here: ${pattern}`);
      return library.number(value).toFixed(0);
    },
  },
};

const patternOf = memoize((lua) => new RegExp(lua.replaceAll('%d', '[0-9]').replaceAll('%w', '[0-9A-Za-z]')));

/** A script of Redis as a function, each text once: what it does not know of Lua it refuses here, not when it is run. */
export const compileLua = memoize((text): LuaScript => {
  const tree = luaparse.parse(text, { luaVersion: '5.1', encodingMode: 'pseudo-latin1' });
  const body = `"use strict"; const { tonumber, type, unpack, error, pcall, math, string } = lua;\n${block(tree.body)}`;
  const run = new Function('KEYS', 'ARGV', 'redis', 'lua', body);
  return (keys, parameters, redis) => run(keys, parameters, redis, library);
});

function memoize<Made>(make: (text: string) => Made): (text: string) => Made {
  const made = new Map<string, Made>();
  return (text) => {
    const known = made.get(text) ?? make(text);
    made.set(text, known);
    return known;
  };
}

const STATEMENTS: Readonly<Record<string, (node: Node) => string>> = {
  LocalStatement({ variables, init }) {
    const names = variables.map(({ name }: Node) => name).join(', ');
    if (init.length === 0) return `let ${names};`;
    return variables.length === 1
      ? `let ${names} = ${expression(init[0])};`
      : `let [${names}] = ${call(init[0])} ?? [];`;
  },
  AssignmentStatement: ({ variables, init }) => `${expression(variables[0])} = ${expression(init[0])};`,
  CallStatement: (node) => `${call(node.expression)};`,
  ReturnStatement: (node) => `return ${expression(node.arguments[0])};`,
  IfStatement({ clauses }) {
    const branches = clauses.map(({ condition, body }: Node) => {
      const test = condition ? `if (lua.isTrue(${expression(condition)})) ` : '';
      return `${test}{ ${block(body)} }`;
    });
    return branches.join(' else ');
  },
  FunctionDeclaration({ identifier, parameters, body }) {
    const names = parameters.map(({ name }: Node) => name).join(', ');
    return `const ${identifier.name} = (${names}) => { ${block(body)} };`;
  },
  WhileStatement: ({ condition, body }) => `while (lua.isTrue(${expression(condition)})) { ${block(body)} }`,
  ForNumericStatement({ variable: { name }, start, end, step, body }) {
    const by = step ? expression(step) : '1';
    const range = `let ${name} = ${expression(start)}; ${name} <= ${expression(end)}; ${name} += ${by}`;
    return `for (${range}) { ${block(body)} }`;
  },
};

const literal = ({ value }: Node) => JSON.stringify(value);

const EXPRESSIONS: typeof STATEMENTS = {
  StringLiteral: literal,
  NumericLiteral: literal,
  BooleanLiteral: literal,
  NilLiteral: () => 'undefined',
  Identifier: ({ name }) => name,
  IndexExpression: ({ base, index }) => `${expression(base)}[${expression(index)} - 1]`,
  CallExpression: (node) => `lua.first(${call(node)})`,
  MemberExpression: ({ base, identifier: { name } }) => `${expression(base)}.${name}`,
  TableConstructorExpression({ fields }) {
    if (fields[0]?.type === 'TableKeyString') return `{ ${fields[0].key.name}: ${expression(fields[0].value)} }`;
    const values = fields.map(({ value }: Node) => value);
    const last = values.pop();
    // Only a call that comes last may give several values.
    const several = last?.type === 'CallExpression' ? call(last) : last && expression(last);
    return `lua.list(${[...values.map(expression), several].join(', ')})`;
  },
  LogicalExpression: ({ operator, left, right }) => `lua.${operator}(${expression(left)}, () => ${expression(right)})`,
  UnaryExpression({ operator, argument }) {
    const value = expression(argument);
    if (operator === 'not') return `!lua.isTrue(${value})`;
    return operator === '#' ? `${value}.length` : `-lua.number(${value})`;
  },
  BinaryExpression({ operator, left, right }) {
    const [one, other] = [expression(left), expression(right)];
    const arithmetic = () => `(lua.number(${one}) ${operator} lua.number(${other}))`;
    return BINARY[operator]?.(one, other) ?? arithmetic();
  },
};

const BINARY: Readonly<Record<string, (left: string, right: string) => string>> = {
  '..': (left, right) => `(lua.text(${left}) + lua.text(${right}))`,
  '==': (left, right) => `(${left} === ${right})`,
  '~=': (left, right) => `(${left} !== ${right})`,
  '<': (left, right) => `lua.isLess(${left}, ${right})`,
  '>': (left, right) => `lua.isLess(${right}, ${left})`,
  '<=': (left, right) => `!lua.isLess(${right}, ${left})`,
  '>=': (left, right) => `!lua.isLess(${left}, ${right})`,
};

const block = (statements: readonly Node[]) => statements.map((node) => translated(STATEMENTS, node)).join('\n');

const expression = (node: Node) => translated(EXPRESSIONS, node);

function translated(translations: typeof STATEMENTS, node: Node): string {
  const translate = translations[node.type];
  if (!translate) throw new Error(`no such thing here: ${node.type}`);
  return translate(node);
}

function call({ type, base, arguments: given }: Node): string {
  if (type !== 'CallExpression') throw new Error(`several values of a ${type}`);
  const name = base.type === 'MemberExpression' ? `${base.base.name}.${base.identifier.name}` : base.name;
  return `${name}(${given.map(expression).join(', ')})`;
}
