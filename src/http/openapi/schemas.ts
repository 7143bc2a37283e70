import { OPERATION_SCHEMAS } from '../operations/schemas.js';
import { PAYMENT_SCHEMAS } from '../payments/schemas.js';
import { TRANSACTION_SCHEMAS } from '../transactions/schemas.js';
import { whole } from './json-schema.js';
import type { JsonSchema } from './route-description.js';

const Problem = whole(
  {
    status: { type: 'integer', description: 'The HTTP status code.' },
    error: { type: 'string', description: 'The HTTP reason phrase.' },
    message: { type: 'string', description: 'What happened, and what to do.' },
  },
  'Every error of the service has this body.',
);

/** `components.schemas`: those of each resource stand next to its routes. */
export const SCHEMAS = {
  Problem,
  ...PAYMENT_SCHEMAS,
  ...TRANSACTION_SCHEMAS,
  ...OPERATION_SCHEMAS,
} satisfies Record<string, JsonSchema>;
