import luaparse, { type Node } from 'luaparse';

/** A value of Lua: nil is undefined, a table is an array (the scripts use lists only), a string is its text. */
export type LuaValue = string | number | boolean | undefined | LuaValue[] | { readonly err: string };

export type RedisCall = (command: string, ...values: LuaValue[]) => LuaValue;

export type LuaScript = (
  keys: readonly string[],
  parameters: readonly string[],
  redis: { readonly call: RedisCall; readonly pcall: RedisCall; error_reply(text: string): LuaValue },
) => LuaValue;

/** What a function of Lua returns that returns several values. */
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

const patterns = new Map<string, RegExp>();

function patternOf(lua: string): RegExp {
  const known = patterns.get(lua);
  if (known) return known;
  const pattern = new RegExp(lua.replaceAll('%d', '[0-9]').replaceAll('%w', '[0-9A-Za-z]'));
  patterns.set(lua, pattern);
  return pattern;
}

const compiled = new Map<string, LuaScript>();

/** A script of Redis as a function, each text once: what it does not know of Lua it refuses here, not when it is run. */
export function compileLua(text: string): LuaScript {
  const known = compiled.get(text);
  if (known) return known;
  const tree = luaparse.parse(text, { luaVersion: '5.1', encodingMode: 'pseudo-latin1' });
  const body = `"use strict"; const { tonumber, math, string } = lua;\n${block(tree.body)}`;
  const run = new Function('KEYS', 'ARGV', 'redis', 'lua', body);
  const script: LuaScript = (keys, parameters, redis) => run(keys, parameters, redis, library);
  compiled.set(text, script);
  return script;
}

function block(statements: readonly Node[]): string {
  return statements.map(statement).join('\n');
}

function statement(node: Node): string {
  switch (node.type) {
    case 'LocalStatement': {
      const names = node.variables.map(({ name }: Node) => name).join(', ');
      if (node.variables.length === 1) return `let ${names} = ${expression(node.init[0])};`;
      return `let [${names}] = ${call(node.init[0])} ?? [];`;
    }
    case 'AssignmentStatement':
      return `${node.variables[0].name} = ${expression(node.init[0])};`;
    case 'CallStatement':
      return `${call(node.expression)};`;
    case 'ReturnStatement':
      return `return ${expression(node.arguments[0])};`;
    case 'IfStatement':
      return node.clauses
        .map(({ condition, body }: Node) => {
          const test = condition ? `if (lua.isTrue(${expression(condition)})) ` : '';
          return `${test}{ ${block(body)} }`;
        })
        .join(' else ');
    case 'ForNumericStatement': {
      const { name } = node.variable;
      const step = node.step ? expression(node.step) : '1';
      const range = `let ${name} = ${expression(node.start)}; ${name} <= ${expression(node.end)}; ${name} += ${step}`;
      return `for (${range}) { ${block(node.body)} }`;
    }
    default:
      throw new Error(`no such statement here: ${node.type}`);
  }
}

function expression(node: Node): string {
  switch (node.type) {
    case 'StringLiteral':
    case 'NumericLiteral':
    case 'BooleanLiteral':
      return JSON.stringify(node.value);
    case 'NilLiteral':
      return 'undefined';
    case 'Identifier':
      return node.name;
    case 'IndexExpression':
      return `${expression(node.base)}[${expression(node.index)} - 1]`;
    case 'CallExpression':
      return `lua.first(${call(node)})`;
    case 'TableConstructorExpression':
      return `[${node.fields.map(({ value }: Node) => expression(value)).join(', ')}]`;
    case 'LogicalExpression':
      return `lua.${node.operator}(${expression(node.left)}, () => ${expression(node.right)})`;
    case 'UnaryExpression':
      return unary(node.operator, expression(node.argument));
    case 'BinaryExpression':
      return binary(node.operator, expression(node.left), expression(node.right));
    default:
      throw new Error(`no such expression here: ${node.type}`);
  }
}

function call({ type, base, arguments: given }: Node): string {
  if (type !== 'CallExpression') throw new Error(`several values of a ${type}`);
  const name = base.type === 'MemberExpression' ? `${base.base.name}.${base.identifier.name}` : base.name;
  return `${name}(${given.map(expression).join(', ')})`;
}

function unary(operator: string, value: string): string {
  switch (operator) {
    case 'not':
      return `!lua.isTrue(${value})`;
    case '#':
      return `${value}.length`;
    default:
      return `-lua.number(${value})`;
  }
}

function binary(operator: string, left: string, right: string): string {
  switch (operator) {
    case '..':
      return `(lua.text(${left}) + lua.text(${right}))`;
    case '==':
      return `(${left} === ${right})`;
    case '~=':
      return `(${left} !== ${right})`;
    case '<':
      return `lua.isLess(${left}, ${right})`;
    case '>':
      return `lua.isLess(${right}, ${left})`;
    case '<=':
      return `!lua.isLess(${right}, ${left})`;
    case '>=':
      return `!lua.isLess(${left}, ${right})`;
    default:
      return `(lua.number(${left}) ${operator} lua.number(${right}))`;
  }
}
