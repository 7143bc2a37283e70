import { library, serverFile } from './library.js';

export const nodeIdempotency = library({
  name: 'node-idempotency',
  about:
    '@node-idempotency/nestjs 1.0.4 in NestJS 10: one record per key, for 24 hours, that is both the lock and the answer; errors are kept like successes.',
  entry: serverFile('node-idempotency.mjs'),
});
