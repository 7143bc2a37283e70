import { describe, expect, test } from 'vitest';
import { EXAMPLE_ERRORS, PROBLEMS, storeRefusal } from '#idempay/http/errors/catalogue.js';
import { problemsPage } from '#idempay/http/errors/problems-page.js';
import { errorBody, formOf, problemBody } from '#idempay/http/errors/public-error.js';
import { prefersProblem } from '#idempay/http/requests/accept.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';

const away = new StoreUnavailable('unchanged', 'away');
const EXAMPLES = Object.entries(EXAMPLE_ERRORS);

/** Programs act on these: none may change, and a new error adds one. */
const NAMES = [
  ...[
    'attempt-before-pending',
    'attempt-before-under-way',
    'attempt-declined',
    'attempt-out-of-turn',
    'attempt-superseded',
    'body-too-large',
  ],
  ...[
    'cancelled-after-decline',
    'cancelled-at-processor',
    'cancelled-too-late',
    'cannot-be-ended',
    'charged-after-cancellation',
  ],
  ...['client-for-operators', 'creation-mismatch', 'credentials-invalid', 'credentials-missing'],
  ...['credentials-unchecked', 'draining', 'empty-body', 'expectation-failed', 'internal', 'invalid-body'],
  ...[
    'invalid-creation-key',
    'invalid-framing',
    'invalid-host',
    'invalid-idempotency-key',
    'invalid-path',
    'invalid-query',
  ],
  ...[
    'invalid-reference',
    'invalid-refund',
    'invalid-request',
    'invalid-transaction-id',
    'key-ended-unpaid',
    'key-not-found',
  ],
  ...[
    'key-of-another-reference',
    'method-not-allowed',
    'misdirected',
    'missing-idempotency-key',
    'no-console',
    'nothing-to-end',
  ],
  ...[
    'other-processor',
    'other-processor-before-loss',
    'other-site',
    'payment-cancelled',
    'payment-declined',
    'payment-final',
  ],
  ...['payment-in-progress', 'payment-mismatch', 'payment-not-found', 'payment-not-sent', 'payment-outcome-unknown'],
  ...[
    'pending-unanswered',
    'precondition-failed',
    'record-not-found',
    'reference-mismatch',
    'reference-of-another-client',
  ],
  ...['reference-without-number', 'refund-declined', 'refund-in-progress', 'refund-mismatch', 'refund-not-sent'],
  ...['refund-of-no-payment', 'refund-of-other-currency', 'refund-of-other-processor', 'refund-of-unpaid'],
  ...['refund-outcome-unknown', 'refund-too-early', 'refund-too-large', 'refund-too-late', 'refunds-not-supported'],
  ...['refunds-unchecked', 'refused'],
  ...['repeated-header', 'resolution-too-early', 'rows-lost', 'scope-missing'],
  ...['settlements-incarnation', 'settlements-removed', 'starting', 'store-of-record-away'],
  ...['store-outcome-unknown', 'store-unavailable', 'store-unreachable', 'too-many-bodies', 'too-many-connections'],
  ...[
    'too-many-lists',
    'too-many-look-ups',
    'too-many-payments',
    'too-many-refunds',
    'too-many-requests',
    'too-many-unpaid-keys',
  ],
  ...[
    'transaction-final',
    'transaction-not-found',
    'unknown-client',
    'unknown-method',
    'unknown-route',
    'unknown-transfer-coding',
  ],
  ...[
    'unknown-version',
    'unreadable-body',
    'unsupported-media-type',
    'uri-too-long',
    'webhook-not-found',
    'without-reference',
  ],
];

test('the types of errors have stable names', () => {
  expect(
    Object.values(PROBLEMS)
      .map(({ name }) => name)
      .sort(),
  ).toEqual(NAMES);
});

test('each error of the catalogue has an example', () => {
  expect(new Set(EXAMPLES.map(([, { problem }]) => problem.name))).toEqual(new Set(NAMES));
});

describe('each error of the catalogue', () => {
  test.each(EXAMPLES)('is the plain body for those who do not ask, byte by byte: %s', (_name, error) => {
    const { status, message } = error;
    for (const accept of [undefined, '*/*', 'application/json', 'application/json, application/problem+json']) {
      expect(formOf(error, accept, { charge: 'made' })).toEqual({
        contentType: 'application/json; charset=utf-8',
        text: JSON.stringify({ status, error: errorBody(status, message).error, message }),
      });
    }
  });

  test.each(EXAMPLES)('is RFC 9457 for those who ask: %s', (_name, error) => {
    const { contentType, text } = formOf(error, 'application/problem+json');
    expect(contentType).toBe('application/problem+json');
    const { name, title, status } = error.problem;
    if (status !== 'several') expect(status).toBe(error.status);
    const body = {
      type: `/problems#${name}`,
      title,
      status: error.status,
      detail: error.message,
      ...error.members,
    };
    expect(JSON.parse(text)).toEqual(body);
    for (const told of [{ charge: 'none' }, { refund: 'made' }] as const) {
      expect(problemBody(error, told)).toEqual({ ...body, ...told });
    }
  });
});

test('a read that failed has the type of a request that changed nothing', () => {
  const unknown = new StoreUnavailable('unknown', 'away');
  expect(storeRefusal(unknown, 'payment status').problem.name).toBe('store-unavailable');
  expect(storeRefusal(away, 'pay').problem.name).toBe('store-unavailable');
  expect(storeRefusal(unknown, 'pay').problem.name).toBe('store-outcome-unknown');
});

test('the page has each name once, and no script and no style', () => {
  const page = problemsPage();
  expect([...page.matchAll(/<dt id="([a-z-]+)">/g)].map(([, id]) => id).sort()).toEqual(NAMES);
  expect(page).not.toMatch(/<style|style=|<script|onload=|javascript:/);
});

describe('RFC 9457 is preferred', () => {
  test.each([
    'application/problem+json',
    'Application/Problem+JSON',
    'application/problem+json;q=0.9, application/json;q=0.8',
    'application/json;q=0.5, application/problem+json',
    '*/*;q=0.1,application/problem+json;q=0.2',
    'text/html, application/problem+json; q=0.001',
    'application/*;q=0.5, application/problem+json',
    'application/problem+json; charset=utf-8',
    'application/json;q=0, application/problem+json;q=1.000',
    'application/json;q=two, application/problem+json;q=0.1',
    'text/x; y="a,application/json,b", application/problem+json',
  ])('by %j', (accept) => expect(prefersProblem(accept)).toBe(true));

  test.each([
    undefined,
    '',
    '*/*',
    'application/*',
    'application/json',
    'application/json;q=0.5, */*',
    'application/problem+json, application/json',
    'application/problem+json, */*',
    'application/problem+json;q=0',
    'application/problem+json;q=0.5, application/json;q=0.5',
    'application/problem+json;q=1.5',
    'application/problem+json;q=0.1234',
    'application/problem+jsonx',
    'text/x; y="application/problem+json"',
  ])('not by %j', (accept) => expect(prefersProblem(accept)).toBe(false));

  /** The time-out of the test is the bound: a search in quadratic time would take minutes. */
  test.each(['"', '\\"', ',', ';', ';q=', 'application/problem+json', ','.repeat(3)])(
    'in time that grows with the header only: 256 KiB of %j',
    (piece) =>
      expect(prefersProblem(`application/problem+json;q=0,${piece.repeat(262_144 / piece.length)}`)).toBe(false),
  );
});
