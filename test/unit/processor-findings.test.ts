import { describe, expect, test } from 'vitest';
import { examineProcessor } from '#idempay/doctor/processor.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';

/**
 * Bug: the doctor called our own Stripe adapter wrong. Cause: it answers 425 to a new reference until a 404 is certain, which the contract
 * allows. Fix: a look-up that says so is a warning.
 */
test.each([
  [404, '{}', 'ok', /^no record/],
  [404, '', 'wrong', /404 to a look-up without a body that is a JSON object.*look at the adapter/],
  [404, '{"reference":"0193a5b4-7c1e-7000-8000-000000000002"}', 'wrong', /names another charge/],
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

describe('the finding about the content of payments', () => {
  async function contentFinding(status: number, headers: Record<string, string>) {
    const { port, received } = await startHttpServer((response) => response.writeHead(status, headers).end('{}'));
    const findings = await examineProcessor({ url: `http://127.0.0.1:${port}`, timeoutMs: 20_000 });
    expect(received.map((request) => request.headers['idempay-contract'])).toEqual(['3']);
    return findings.find(({ what }) => what === 'Processor content');
  }

  test.each(['2', '3'])('is well where the adapter answers with Idempay-Contract: %s', async (contract) => {
    expect(await contentFinding(404, { 'idempay-contract': contract })).toMatchObject({ verdict: 'ok', found: 'read' });
  });

  test.each<Record<string, string>>([{}, { 'idempay-contract': '1' }, { 'idempay-contract': 'yes' }])(
    'is a warning where the adapter answers with %j, and says what does not arrive',
    async (headers) => {
      expect(await contentFinding(404, headers)).toMatchObject({
        verdict: 'warning',
        found: expect.stringContaining('does not say'),
        wanted: expect.stringContaining('Idempay-Contract: 2'),
        why: expect.stringContaining('source'),
      });
    },
  );

  // A gateway's page says nothing of the adapter behind it.
  test.each([401, 425, 503])('is none where the look-up is answered with %i', async (status) => {
    expect(await contentFinding(status, {})).toBeUndefined();
  });
});

test.each<[Record<string, string>, string, string]>([
  [{ 'idempay-contract': '3' }, 'ok', '3'],
  [{ 'idempay-contract': '4' }, 'ok', '4'],
  [{ 'idempay-contract': '2' }, 'warning', '2'],
  [{ 'idempay-contract': '3, 2' }, 'warning', '2'],
  [{}, 'warning', 'the adapter names none'],
])('the doctor says which contract an adapter with the headers %j names', async (headers, verdict, found) => {
  const { port } = await startHttpServer((response) => response.writeHead(404, headers).end('{}'));
  const findings = await examineProcessor({ url: `http://127.0.0.1:${port}`, timeoutMs: 20_000 });
  const finding = findings.find(({ what }) => what === 'Processor contract');
  expect(finding).toMatchObject({ verdict, found, why: expect.stringContaining('under way can be cancelled') });
});

test('the doctor warns if a 404 does not name the reference that was asked for', async () => {
  const named = async (isNamed: boolean) => {
    const { port } = await startHttpServer((response, { url }) => {
      const reference = url.split('/').at(-1);
      response.writeHead(404).end(JSON.stringify({ error: 'no record', ...(isNamed && { reference }) }));
    });
    const findings = await examineProcessor({ url: `http://127.0.0.1:${port}`, timeoutMs: 20_000 });
    return findings.find(({ what }) => what === 'Processor names');
  };
  expect(await named(true)).toMatchObject({ verdict: 'ok', found: 'the reference' });
  expect(await named(false)).toMatchObject({ verdict: 'warning', found: expect.stringContaining('does not name') });
});
