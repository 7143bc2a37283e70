type Operation = (...args: never[]) => unknown;

/** For each operation that changes, what takes its place, made from the operation that the port has. */
type Changes<Port> = {
  readonly [Name in keyof Port]?: Port[Name] extends Operation ? (next: Port[Name]) => Port[Name] : never;
};

/** The same port with some operations changed. Everything else is passed on, also what a class defines. */
export function decorated<Port extends object>(port: Port, changes: Changes<Port>): Port {
  const changeOf = changes as Readonly<Record<PropertyKey, ((next: Operation) => Operation) | undefined>>;
  return decoratedEach(port, (next, name) => changeOf[name]?.(next) ?? next);
}

/**
 * The same port with every operation made anew by `change`, which may return `next` as it is. Members are read from the port
 * when they are asked for, so that getters stay true, and `this` is the port, so that private members are found.
 */
export function decoratedEach<Port extends object>(
  port: Port,
  change: (next: (...args: unknown[]) => unknown, name: keyof Port) => Operation,
): Port {
  const members = port as Readonly<Record<PropertyKey, unknown>>;
  const made = {};
  for (const [name, isOperation] of membersOf(port)) {
    const member = isOperation
      ? { value: change((...args) => (members[name] as (...args: unknown[]) => unknown)(...args), name as keyof Port) }
      : { get: () => members[name] };
    Object.defineProperty(made, name, { ...member, enumerable: true });
  }
  return made as Port;
}

/** Own members and the classes' members, the nearest first, each with true if it is an operation. */
function membersOf(port: object): Map<PropertyKey, boolean> {
  const members = new Map<PropertyKey, boolean>();
  for (let at = port; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at)) {
    for (const name of Reflect.ownKeys(at)) {
      const { value } = Object.getOwnPropertyDescriptor(at, name) as PropertyDescriptor;
      if (!members.has(name) && name !== 'constructor') members.set(name, typeof value === 'function');
    }
  }
  return members;
}
