import { expect, test } from 'vitest';
import { isClient } from '#idempay/access/client-name.js';

const CARD = '\u{1f4b3}';

test('a client has the form that credentials can give it', () => {
  const clients = [
    'key:shop',
    `key:${'a'.repeat(64)}`,
    'key:A.b_c-1',
    'jwt:web shop',
    'jwt-sub:auth0|5f7',
    'jwt:key:shop',
  ];
  for (const client of [...clients, `jwt:${CARD.repeat(255)}`]) expect(isClient(client), client).toBe(true);
  const others = [
    '',
    ' ',
    'shop',
    'KEY:shop',
    'Key:shop',
    ' key:shop',
    'key:shop ',
    'key:',
    'key:a b',
    'key:caf\u00e9',
  ];
  const unstorable = [
    'key:shop\0',
    'jwt:\0',
    'jwt:a\nb',
    'jwt:\ud83d',
    `jwt:${CARD.repeat(256)}`,
    `key:${'a'.repeat(65)}`,
  ];
  for (const text of [...others, ...unstorable, 'jwt:', 'jwt-sub:', 'jwtsub:shop', 'jwt', 'a'.repeat(3_000)])
    expect(isClient(text), JSON.stringify(text)).toBe(false);
});
