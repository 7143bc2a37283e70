import { expect, test } from 'vitest';
import { decorated, decoratedEach } from '#idempay/platform/decorated.js';

class Base {
  readonly traits = { name: 'counter' };
  #calls = 0;

  get calls() {
    return this.#calls;
  }

  add(more: number): number {
    this.#calls += more;
    return this.#calls;
  }
}

class Counter extends Base {
  reset(): void {
    this.add(-this.calls);
  }
}

test('a decorated port changes what it is told to, and passes on members, getters and private state of its classes', () => {
  const real = new Counter();
  const port = decorated(real, { add: (next) => (more) => next(more * 10) });
  expect([port.add(1), port.calls, real.calls, port.traits]).toEqual([10, 10, 10, { name: 'counter' }]);
  // Only what comes through the decorated port is changed.
  port.reset();
  expect([port.calls, real.add(1), port.calls]).toEqual([0, 1, 1]);
});

test('a decorated port has all members of its own, so that spreading it loses none, and none can be set', () => {
  const port = decorated(new Counter(), {});
  expect(Object.keys({ ...port }).sort()).toEqual(['add', 'calls', 'reset', 'traits']);
  expect(() => Object.assign(port, { calls: 1 })).toThrow(TypeError);
});

test('a decorated port may be decorated again: the last change is the first to be called', async () => {
  const called: string[] = [];
  const noted = (by: string) => (next: (key: string) => Promise<string>) => (key: string) => {
    called.push(by);
    return next(`${key} ${by}`);
  };
  const inner = decorated({ find: async (key: string) => key }, { find: noted('inner') });
  const outer = decorated(inner, { find: noted('outer') });
  expect(await outer.find('key')).toBe('key outer inner');
  expect(called).toEqual(['outer', 'inner']);
});

test('every operation can be changed by one function, which is told their names and never sees other members', () => {
  const names: string[] = [];
  const port = decoratedEach(new Counter(), (next, name) => {
    names.push(name);
    return next;
  });
  expect(names.sort()).toEqual(['add', 'reset']);
  expect(port.add(2)).toBe(2);
});
