import { EXAMPLE_KEY } from '../errors/public-errors.js';
import { always, linkToNextPage, sometimes } from '../openapi/headers.js';
import type { RequestHeader } from '../openapi/route-description.js';

export const PAYMENT_REQUEST_HEADERS = {
  idempotencyKey: {
    name: 'Idempotency-Key',
    text: 'The key that `generateKey` gave out: one for each payment, the same for every repeat. In any case, with or without quotes. Sent twice it is invalid. Not needed where `reference` names the payment; then it must be the key of the reference, or be left out.',
    required: false,
    schema: { type: 'string' },
  },
  prefer: {
    name: 'Prefer',
    text: '`wait=N` (RFC 7240): a duplicate of a payment under way waits up to N seconds, at most 30, for its outcome. `return=representation`: a payment that is paid is answered with its record, as `getPayment` has it, and not with a sentence. Both may be sent. What is malformed is ignored.',
    required: false,
    schema: { type: 'string' },
  },
} as const satisfies Record<string, RequestHeader>;

export const COMPUTED_KEY = always(
  'Idempotency-Key',
  'The key of the `reference` and `attempt` that the request named.',
  { type: 'string', format: 'uuid' },
);

export const CLIENT = sometimes(
  always(
    'Idempay-Client',
    'For operators: the client whose reference it was, percent-encoded.',
    { type: 'string' },
    'key:shop',
  ),
);

export const PREFERENCE_APPLIED = sometimes(
  always(
    'Preference-Applied',
    'What was done of what `Prefer` asked for: the request waited, for at most so many seconds; the body is the record of the payment.',
    { type: 'string', pattern: '^(wait=([1-9]|[12][0-9]|30)(, return=representation)?|return=representation)$' },
    'wait=10',
  ),
);

export const LINK_NEXT = linkToNextPage('/api/payments', 'Link', EXAMPLE_KEY);

/** How far a search in content came, which its page does not show. */
export const SEARCHED_FROM_HEADER = 'Idempay-Searched-From';

export const SEARCHED_FROM = sometimes(
  always(
    SEARCHED_FROM_HEADER,
    'With `content`: the pages up to this one have searched what was claimed from here on.',
    { type: 'string', format: 'date-time' },
    '2026-11-20T13:00:00.000Z',
  ),
);

export const CONTENT_DISPOSITION = always(
  'Content-Disposition',
  'The name of the file.',
  {
    type: 'string',
    pattern: '^attachment; filename="payments-\\d{4}-\\d{2}-\\d{2}(-to-\\d{4}-\\d{2}-\\d{2})?\\.ndjson"$',
  },
  'attachment; filename="payments-2026-11-20.ndjson"',
);
