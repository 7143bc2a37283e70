import { library, serverFile } from './library.js';

export const powertools = library({
  name: 'powertools',
  about:
    "@aws-lambda-powertools/idempotency 2.35.0 with its cache layer: a record that may be taken over when the invocation's 30 seconds are over; errors remove it.",
  entry: serverFile('powertools.mjs'),
});
