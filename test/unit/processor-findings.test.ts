import { expect, test } from 'vitest';
import { examineProcessor } from '#idempay/doctor/processor.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';

/**
 * Bug: the doctor called our own Stripe adapter wrong. Cause: it answers 425 to a new reference until a 404 is certain, which the contract
 * allows. Fix: a look-up that says so is a warning.
 */
test.each([
  [404, '{}', 'ok', /^no record/],
  [425, '{}', 'warning', /425.*still at work/],
  [401, '{}', 'wrong', /401.*user and password/],
  [503, '{}', 'wrong', /503/],
  [200, '{"status":"succeeded"}', 'wrong', /succeeded, for a reference that was never charged/],
])('a processor that answers %i %s to a random reference is %s', async (status, body, verdict, found) => {
  const { port, received } = await startHttpServer((response) => response.writeHead(status).end(body));
  const url = `http://user:not-this-one@127.0.0.1:${port}/v1`;
  const findings = await examineProcessor({ url, timeoutMs: 20_000 });
  expect(findings[0]).toMatchObject({ what: 'Processor look-up', verdict, found: expect.stringMatching(found) });
  expect(JSON.stringify(findings)).not.toContain('not-this-one');
  expect(received.map(({ method }) => method)).toEqual(['GET']);
});
