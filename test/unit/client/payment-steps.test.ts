import { expect, test } from 'vitest';
import { json, KEY, scripted } from '../../../testkit/client-library/scripted-fetch.js';

const TIMELINE = {
  idempotencyKey: KEY,
  state: 'COMPLETED',
  events: [{ at: null, event: 'claimed', execution: 1, process: null, by: null, detail: null }],
  omitted: 0,
  next: { what: 'replayed', at: null, resolvableAt: null, text: 'It is final.' },
};
const SAID = {
  idempotencyKey: KEY,
  processor: 'acme',
  askedAt: '2026-11-20T13:00:00.000Z',
  answer: 'succeeded',
  reason: null,
};
const OTHER = '0190f3a2-0000-7000-8000-000000000000';

test('the steps of a payment, and what the processor knows of it, are read by the key in any form', async () => {
  const { idempay, sent } = scripted([json(TIMELINE), json(SAID)]);
  expect(await idempay.payments.timeline(KEY.toUpperCase())).toEqual(TIMELINE);
  expect(await idempay.payments.askProcessor(KEY)).toEqual(SAID);
  expect(sent.map(({ path }) => path)).toEqual([
    `/api/payments/${KEY.toUpperCase()}/timeline`,
    `/api/payments/${KEY}/processor-answer`,
  ]);
});

test.each([
  ['about another payment', { idempotencyKey: OTHER }],
  ['without its content', { events: undefined, answer: undefined }],
])('an answer %s is not believed', async (_which, wrong) => {
  const { idempay } = scripted([json({ ...TIMELINE, ...wrong }), json({ ...SAID, ...wrong })]);
  const refused = { name: 'UnexpectedAnswerError' };
  await expect(idempay.payments.timeline(KEY)).rejects.toMatchObject(refused);
  await expect(idempay.payments.askProcessor(KEY)).rejects.toMatchObject(refused);
});
