import { expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { expectFirst, NO_PAYMENT, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { readPayment, shownIn } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

describeDeployments('the tag of a payment', (deployment) => {
  const shared = shareService(deployment);

  const given = async () => {
    const key = await generateKey(shared.url);
    expectFirst(await pay(shared.url, key));
    const answer = await readPayment(shared.url, key);
    return { key, tag: tagOf(answer), text: answer.text };
  };

  it.each(MATCHING_FORMS)('named in If-None-Match by %s gives 304', async (_name, make) => {
    const { key, tag } = await given();
    const headers = { 'If-None-Match': make(tag) };
    expectNotModified(await readPayment(shared.url, key, { headers }), tag);
    expectNotModified(await readPayment(shared.url, key, { headers, method: 'HEAD' }), tag);
  });

  it.each(OTHER_FORMS)('not named in If-None-Match by %s gives the payment', async (_name, make) => {
    const { key, tag, text } = await given();
    const answer = await readPayment(shared.url, key, { headers: { 'If-None-Match': make(tag) } });
    shownIn(answer);
    expect(answer.text).toBe(text);
    expect(tagOf(answer)).toBe(tag);
  });

  it('gives 304 for a key that has not paid, and the payment once it has', async () => {
    const key = await generateKey(shared.url);
    const tag = tagOf(await readPayment(shared.url, key));
    const headers = { 'If-None-Match': `"${tag}"` };
    expectNotModified(await readPayment(shared.url, key, { headers }), tag);
    expectFirst(await pay(shared.url, key));
    const answer = await readPayment(shared.url, key, { headers });
    expect(shownIn(answer).state).toBe('COMPLETED');
    expect(tagOf(answer)).not.toBe(tag);
  });

  it('is another one for each payment', async () => {
    const [one, other] = [await given(), await given()];
    expect(one.tag).not.toBe(other.tag);
    const headers = { 'If-None-Match': `"${one.tag}"` };
    expect((await readPayment(shared.url, other.key, { headers })).status).toBe(200);
  });

  it.each(['*', '"0123456789abcdef0123456789abcdef"'])(
    'gives 404 for an unknown key, whatever it names: %s',
    async (form) => {
      expectError(await readPayment(shared.url, UNKNOWN_KEY, { headers: { 'If-None-Match': form } }), 404, NO_PAYMENT);
    },
  );

  it('in If-Match gives the payment, and another tag 412', async () => {
    const { key, tag, text } = await given();
    expect((await readPayment(shared.url, key, { headers: { 'If-Match': `"${tag}"` } })).text).toBe(text);
    expectError(await readPayment(shared.url, key, { headers: { 'If-Match': `W/"${tag}"` } }), 412);
    const unknown = { headers: { 'If-Match': '"x"' } };
    expectError(await readPayment(shared.url, UNKNOWN_KEY, unknown), 404, NO_PAYMENT);
  });

  it('is not asked for by a query: a resolution refuses parameters, all of which it does not know', async () => {
    const { key } = await given();
    const answer = await sendJson(`${shared.url}/api/payments/${key}/resolution?outcome=completed`, 'POST', {});
    expectError(answer, 400, "'outcome' is no query parameter of this path. Send it without parameters.");
  });

  it('is judged before a resolution, and an unknown key is still 404', async () => {
    const { key, tag } = await given();
    const verdict = { outcome: 'completed', reason: 'seen' };
    const resolve = (of: string, headers: Record<string, string>) =>
      sendJson(`${shared.url}/api/payments/${of}/resolution`, 'POST', verdict, headers);
    expectError(await resolve(key, { 'If-Match': '"x"' }), 412);
    expectError(await resolve(key, { 'If-None-Match': '*' }), 412);
    // Met: then it is refused for what it asks.
    expectError(await resolve(key, { 'If-Match': `"${tag}"` }), 409);
    for (const unpaid of [UNKNOWN_KEY, await generateKey(shared.url)]) {
      expectError(await resolve(unpaid, { 'If-Match': '"x"' }), 404, NO_PAYMENT);
    }
  });
});
