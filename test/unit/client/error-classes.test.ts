import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as client from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { endingOf } from '#idempay/cli/endings.js';
import { ATTEMPT_STATES } from '#idempay/http/errors/catalogue.js';
import { ROOT } from '../../../testkit/programs.js';

const page = (name: string) => readFileSync(join(ROOT, 'docs/reference', name), 'utf8');
const isError = ([name, member]: [string, unknown]) =>
  typeof member === 'function' && member.prototype instanceof client.IdempayError && name !== 'PaymentError';
const CLASSES = Object.entries(client).filter(isError);

describe('what a caller does after an error', () => {
  test.each(CLASSES.map(([name]) => name))(
    '%s has an exit code of the command, and a row in the page of the client',
    (name) => {
      expect(endingOf(Object.assign(new Error('why'), { name }))?.exitCode).toBeGreaterThan(0);
      expect(page('client.md')).toContain(`| \`${name}\``);
    },
  );

  test('every reason of a 422 of a payment is in the page on orders', () => {
    expect(CLASSES.length).toBeGreaterThan(10);
    for (const state of ATTEMPT_STATES) expect(page('references.md'), state).toContain(`\`${state}\``);
  });
});
