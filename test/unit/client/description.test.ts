import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { descriptionSchemas, digestOf } from '../../../client/generator/schemas.mjs';

test('the types of the client are those of the description', () => {
  const [, digest] = /^\/\/ Schemas: (\w+)$/m.exec(readFileSync('client/description.ts', 'utf8')) ?? [];
  const command = 'npm ci --ignore-scripts --prefix client/generator && node client/generator/generate.mjs';
  expect(digest, `generate them: ${command}`).toBe(digestOf(descriptionSchemas()));
});
