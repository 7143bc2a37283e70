import { library, serverFile } from './library.js';

export const expressIdempotency = library({
  name: 'express-idempotency',
  about:
    'express-idempotency 1.0.6 in Express 4, with express-idempotency-redis-adapter 1.0.8: looks for a record, then writes one for 24 hours; errors remove it.',
  entry: serverFile('express-idempotency.mjs'),
});
