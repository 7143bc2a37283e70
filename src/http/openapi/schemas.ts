import { CHARGES } from '../../payments/history/charge.js';
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

const ProblemDetails = {
  type: 'object',
  description:
    'Every error of the service, for a request that prefers it with `Accept: application/problem+json` (RFC 9457).',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: {
      type: 'string',
      pattern: '^/problems#[a-z-]+$',
      description: 'What programs act on. The page `/problems` explains each; names never change.',
      examples: ['/problems#payment-in-progress'],
    },
    title: { type: 'string', description: 'What the type means.' },
    status: { type: 'integer', description: 'The HTTP status code.' },
    detail: { type: 'string', description: 'The `message` of `Problem`.' },
    charge: {
      type: 'string',
      enum: CHARGES,
      description:
        'For payments: whether the key was charged, or any attempt at the reference if one is named or the key is computed from one. `made`: it was. `none`: it is certain that nothing was, and nothing will be without another attempt. If absent, it is `unknown`.',
    },
  },
  additionalProperties: false,
};

/** `components.schemas`: those of each resource stand next to its routes. */
export const SCHEMAS = {
  Problem,
  ProblemDetails,
  ...PAYMENT_SCHEMAS,
  ...TRANSACTION_SCHEMAS,
  ...OPERATION_SCHEMAS,
} satisfies Record<string, JsonSchema>;
