import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { ask, pay } from '../../testkit/client/http-client.js';
import type { ShownTimeline } from '../../testkit/client/payment-records.js';
import { embedded } from '../../testkit/deployments/deployments.js';

/** Nobody listens there. */
const ADDRESS = '127.0.0.1:9';
const HASH = createHash('sha256').update('shop-user').digest('hex').slice(0, 12);
const INTERNAL = new RegExp(`127\\.0\\.0\\.1|${HASH}|user=|ECONN`);

/**
 * Bug: a client's timeline showed the internal address of the processor, and the hash of its user, which has no salt.
 * Cause: clients were shown the processor's name as payment rows have it, and the causes of faults, which name addresses.
 * Fix: a client sees that it is one over HTTP; who has the scope `operations` sees all of it.
 */
test('only operators see the address of the processor, the hash of its user, and why it gave no answer', async () => {
  const [shop, operator] = [
    credentialOf('shop', ['payments:write', 'payments:read']),
    credentialOf('operator', ['operations']),
  ];
  const folder = await mkdtemp(join(tmpdir(), 'idempay-address-'));
  const stores = await embedded.open();
  onTestFinished(async () => {
    await stores.close();
    await rm(folder, { recursive: true });
  });
  const file = join(folder, 'keys.json');
  await writeFile(file, keyFileOf(shop, operator));
  const access = { AUTH: 'required', API_KEYS_FILE: file, LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '500' };
  const service = await stores.serve({ ...access, PROCESSOR_URL: `http://shop-user:secret@${ADDRESS}/inside` });
  const key = (await ask(`${service.url}/api/server-generated/generate-key`, shop)).json<string>();
  expect((await pay(service.url, key, undefined, shop)).status).toBe(503);

  async function seenBy({ headers }: typeof shop, url: string) {
    const look = (path: string) => ask(`${url}${path}`, { headers });
    const [timeline, record, list, session] = await Promise.all([
      look(`/api/payments/${key}/timeline`),
      look(`/api/payments/${key}`),
      look('/api/payments'),
      look('/api/session'),
    ]);
    return { timeline, record, list, session, all: [timeline, record, list, session].map(({ text }) => text) };
  }

  const seen = await seenBy(shop, service.url);
  for (const text of seen.all) expect(text).not.toMatch(INTERNAL);
  expect(seen.record.json()).toMatchObject({ processor: 'http', state: 'PROCESSING' });
  expect(seen.session.json()).toMatchObject({ processor: { name: 'http' } });
  const { events } = seen.timeline.json<ShownTimeline>();
  expect(events.at(-1)).toMatchObject({ event: 'not sent', detail: null });

  const known = await seenBy(operator, service.url);
  for (const answer of [known.record, known.list, known.session]) {
    expect(answer.text).toContain(`http://${ADDRESS}/inside?user=${HASH}`);
  }
  expect(known.timeline.text).toContain(`ECONNREFUSED ${ADDRESS}`);

  // By another account the text about what comes next names the processor.
  await service.stop();
  const other = await stores.serve({ ...access, PROCESSOR_URL: `http://other@${ADDRESS}/inside` });
  for (const text of (await seenBy(shop, other.url)).all) expect(text).not.toMatch(INTERNAL);
  expect((await seenBy(operator, other.url)).timeline.text).toContain(`user=${HASH}`);
});
