import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const FOLDER = 'console/src';

/** The classes that the selectors of a stylesheet begin with: what it lays down for the whole page. */
function leadingClasses(css: string): string[] {
  const prelude = /(?:^|[}{;])\s*([^{};@]+)\{/g;
  const selectors = [...css.replaceAll(/\/\*.*?\*\//gs, '').matchAll(prelude)].flatMap(([, list = '']) =>
    list.split(','),
  );
  return selectors.flatMap((selector) => /^\s*\.([\w-]+)/.exec(selector)?.[1] ?? []);
}

test('a class belongs to one stylesheet: that of a view stays on the page after its view was left', () => {
  const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.css'));
  const owners = new Map<string, Set<string>>();
  for (const file of files) {
    for (const name of leadingClasses(readFileSync(`${FOLDER}/${file}`, 'utf8'))) {
      owners.set(name, (owners.get(name) ?? new Set()).add(file));
    }
  }
  expect(owners.get('payment-filters')).toEqual(new Set(['payments/payments.css']));
  expect([...owners].filter(([, of]) => of.size > 1)).toEqual([]);
});
