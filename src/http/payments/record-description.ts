import { MOST_METADATA_VALUE } from '../../payments/values/content.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/public-errors.js';
import { ETAG, NO_STORE, REQUEST_HEADERS, REVALIDATE } from '../openapi/headers.js';
import {
  type AnswerDescription,
  type ParameterDescription,
  type RouteDescription,
  refusedBodies,
} from '../openapi/route-description.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { examplePayment, exportText, pendingPayment } from './examples.js';
import { CONTENT_DISPOSITION, LINK_NEXT, SEARCHED_FROM } from './headers.js';
import {
  DEFAULT_LIMIT,
  EXPORT_PARAMETERS,
  LIST_PARAMETERS,
  MAX_LIMIT,
  MOST_DAYS,
  readDays,
  readSelection,
  readVerdict,
  STATES,
} from './record-request.js';

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;
const JSON_TYPE = 'application/json';
const Payment = { $ref: '#/components/schemas/Payment' };

const key: ParameterDescription = {
  text: 'The idempotency key, in any case.',
  schema: { type: 'string' },
  example: EXAMPLE_KEY,
};
const momentSchema = {
  anyOf: [
    { type: 'string', format: 'date' },
    { type: 'string', format: 'date-time' },
  ],
};

export const listPayments: RouteDescription = {
  operationId: 'listPayments',
  tag: 'Payment records',
  summary: 'List payments, newest first',
  text: 'In the order of their first claims, in pages: follow `Link`. A page may be short, even empty, and still have a next one, because only so many rows are read for it: without `Link` it is the last. A client sees its own payments, an operator (scope `operations`) those of all. An empty parameter counts as absent, except `reference` and `content`. An empty `reference` or `content` and an unknown parameter are refused.',
  parameters: {
    find: {
      text: 'Only payments whose key begins so (hexadecimal digits, with or without dashes), or whose transaction id does (`TXN` and digits). In any case.',
      schema: { type: 'string', minLength: 1 },
      example: EXAMPLE_KEY.slice(0, 13),
    },
    reference: {
      text: 'Only the attempts at this reference: all of them, of each client that may be seen.',
      schema: { type: 'string', pattern: '^[A-Za-z0-9._~:/@-]{1,128}$' },
      example: 'order-17',
    },
    content: {
      text: 'For operators: only payments with exactly this description, or value of the metadata. It needs `from`. A page reads 1,000 payments: `Idempay-Searched-From` says how far it came.',
      schema: { type: 'string', minLength: 1, maxLength: MOST_METADATA_VALUE },
      example: 'ann@shop.example',
    },
    state: { text: 'Only payments in this state. In any case.', schema: { type: 'string', enum: STATES } },
    processor: { text: 'Only payments of the processor with this name.', schema: { type: 'string' } },
    from: {
      text: 'Only payments that were first claimed at or after this day (UTC, `2026-11-20`) or moment (`2026-11-20T13:00:00Z`).',
      schema: momentSchema,
    },
    to: {
      text: 'Only payments that were first claimed before this day or moment.',
      schema: momentSchema,
    },
    limit: {
      text: 'The length of a page.',
      schema: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
    },
    cursor: { text: 'From `Link` of the page before; opaque.', schema: { type: 'string', minLength: 1 } },
  },
  answers: {
    200: {
      text: 'A page.',
      headers: [NO_STORE, LINK_NEXT, SEARCHED_FROM],
      content: {
        mediaType: JSON_TYPE,
        schema: { type: 'array', items: Payment },
        examples: { page: [examplePayment()] },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ stat: '' }, LIST_PARAMETERS),
      invalidFind: () => readSelection({ find: 'order-17' }),
    },
    'invalidReference',
    {
      invalidContent: () => readSelection({ content: '' }),
      contentWithoutFrom: () => readSelection({ content: 'Shoes' }),
      contentOfClient: () => readSelection({ content: 'Shoes' }, 'key:shop'),
      invalidState: () => readSelection({ state: 'PAID' }),
      invalidProcessor: () => readSelection({ processor: '\0' }),
      invalidFrom: () => readSelection({ from: 'yesterday' }),
      invalidTo: () => readSelection({ to: 'tomorrow' }),
      invalidLimit: () => readSelection({ limit: '0' }),
      invalidCursor: () => readSelection({ cursor: '2' }),
    },
  ],
};

export const exportPayments: RouteDescription = {
  operationId: 'exportPayments',
  tag: 'Payment records',
  summary: 'Export the payments that were settled on a day, or on several',
  text: 'One JSON object for each line, in the order of settling. The last line is `{"end":true,"count":3,"sums":{"EUR":"30.00"}}`: how many payments came before it, and the exact sums by currency of those that are `COMPLETED`. An export without this line was cut, and is not whole.',
  parameters: {
    day: {
      text: 'The day, in UTC.',
      required: true,
      schema: { type: 'string', format: 'date' },
      example: '2026-11-20',
    },
    lastDay: {
      text: `The last of several days, which is included; \`day\` is the first. At most ${MOST_DAYS} days.`,
      schema: { type: 'string', format: 'date' },
    },
    processor: { text: 'Only payments of the processor with this name.', schema: { type: 'string' } },
  },
  answers: {
    200: {
      text: 'The payments, one to a line, each as in `getPayment`, and the line that ends the export.',
      headers: [NO_STORE, CONTENT_DISPOSITION],
      content: {
        mediaType: 'application/x-ndjson',
        schema: { type: 'string' },
        examples: { one: exportText() },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ days: '' }, EXPORT_PARAMETERS),
      invalidDay: () => readDays('2026-11-31', undefined),
      invalidLastDay: () => readDays('2026-11-30', '2026-11-01'),
    },
  ],
};

const shownPayment = (text: string, examples: Readonly<Record<string, unknown>>): AnswerDescription => ({
  text,
  headers: [ETAG, REVALIDATE],
  content: { mediaType: JSON_TYPE, schema: Payment, examples },
});

export const getPayment: RouteDescription = {
  operationId: 'getPayment',
  tag: 'Payment records',
  summary: 'Read a payment by its key',
  text: 'Also one that is issued and not paid with yet. This is how an unknown outcome is looked up: `COMPLETED` and `DECLINED` are final. It changes while the payment is under way, and its tag with it. A 404 says in `Idempay-Key-State` whether it is certain that nothing was and nothing can be charged with the key.',
  parameters: { key },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: shownPayment('The payment.', {
      completed: examplePayment(),
      declined: examplePayment({ state: 'DECLINED', reason: 'insufficient funds' }),
      pending: pendingPayment(),
    }),
    304: { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, REVALIDATE] },
  },
  errors: ['keyEndedUnpaid', 'recordNotFound', { preconditionFailed: publicErrors.preconditionFailed('payment') }],
};

export const resolvePayment: RouteDescription = {
  operationId: 'resolvePayment',
  tag: 'Payment records',
  summary: 'End a payment whose outcome stays unknown',
  text: 'For an operator who found out the outcome outside of the service. The processor is asked once more before. The same resolution may be sent again: it is kept once.',
  parameters: { key },
  headers: [ifMatch, ifNoneMatch],
  body: {
    text: 'At most 16 KiB.',
    required: true,
    schema: 'Resolution',
    examples: { completed: { outcome: 'completed', reason: 'on the bank statement of 2026-11-20' } },
  },
  answers: {
    200: shownPayment('The payment is final now.', {
      resolved: examplePayment({ resolution: 'on the bank statement of 2026-11-20' }),
    }),
  },
  errors: [
    { unknownParameter: () => refuseUnknownParameters({ outcome: '' }, []) },
    'emptyBody',
    refusedBodies(readVerdict, {
      notAnObject: '"completed"',
      memberTwice: '{"outcome":"completed","outcome":"declined","reason":"seen"}',
      invalidOutcome: '{"outcome":"paid","reason":"seen"}',
      invalidReason: '{"outcome":"completed"}',
    }),
    'paymentNotFound',
    'paymentFinal',
    {
      paymentDeclined: publicErrors.paymentFinal('DECLINED'),
      paymentCancelled: publicErrors.paymentFinal('CANCELLED'),
    },
    'paymentInProgress',
    'resolutionTooEarly',
    { preconditionFailed: publicErrors.preconditionFailed('payment') },
  ],
};
