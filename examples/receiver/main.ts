// Receives webhooks of Idempay: keeps each event once, answers, and does the work afterwards. The guide is docs/guides/webhooks-receivers.md.
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { InvalidWebhookError, verifyWebhook, type WebhookEvent } from '@idempay/client';
import { type FastifyRequest, fastify } from 'fastify';

const { PORT = '3020', EVENTS = './data/events', WEBHOOK_SECRETS = '' } = process.env;
/** Two during a change, with white space between them. */
const secrets = WEBHOOK_SECRETS.split(/\s+/).filter(Boolean);
const POLL_MS = 200;

const app = fastify();
// The signature is about the bytes that arrived, so nothing may parse them before.
app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_: FastifyRequest, body: Buffer) => body);

app.post<{ Body: Buffer }>('/webhooks/idempay', async ({ headers, body }, reply) => {
  try {
    await keep(await verifyWebhook(headers, body, secrets));
    return reply.code(204).send();
  } catch (error) {
    // If it could not be kept, the answer is a 500, and Idempay sends it again.
    if (!(error instanceof InvalidWebhookError)) throw error;
    console.error(`${error.why}: ${error.message}`);
    return reply.code(400).send('The message was not taken.');
  }
});

const file = (id: string, kind: 'event' | 'done') => join(EVENTS, `${encodeURIComponent(id)}.${kind}`);

/** The folder stands for a table whose primary key is the id. An event is kept once, also if it comes to two servers at the same time. */
async function keep(event: WebhookEvent): Promise<void> {
  const draft = join(EVENTS, `${randomUUID()}.draft`);
  await writeFile(draft, JSON.stringify(event), { flush: true });
  await link(draft, file(event.id, 'event')).catch((fault: NodeJS.ErrnoException) => {
    if (fault.code !== 'EEXIST') throw fault;
  });
  await rm(draft);
  // The name too must be on the disk before the answer, because Idempay does not send the event again.
  await syncFolder();
}

async function syncFolder(): Promise<void> {
  const folder = await open(EVENTS);
  await folder.sync().finally(() => folder.close());
}

/** An event stays in the folder after its work is done, because it may come again days later. */
async function workOnKept(): Promise<void> {
  const names = new Set(await readdir(EVENTS));
  for (const name of names) {
    if (!name.endsWith('.event') || names.has(name.replace(/event$/, 'done'))) continue;
    const event: WebhookEvent = JSON.parse(await readFile(join(EVENTS, name), 'utf8'));
    // One event that cannot be worked on must not hold up the others.
    await finish(event).catch((fault) => console.error(fault));
  }
}

/** The result and the note that the work is done are one step. In a database they are one transaction. */
async function finish(event: WebhookEvent): Promise<void> {
  const draft = join(EVENTS, `${randomUUID()}.draft`);
  await writeFile(draft, workOn(event), { flush: true });
  await rename(draft, file(event.id, 'done'));
}

/** Runs again for the same event if the program is killed in the middle, so it must not do twice what may be done only once. */
function workOn({ type, data }: WebhookEvent): string {
  const money = `${data.amount} ${data.currency}`;
  if (type === 'payment.completed') return `paid: ${data.reference}, ${money}`;
  if (type === 'refund.completed') return `given back: ${data.refund?.name} of ${data.refund?.payment}, ${money}`;
  // Nothing was paid; or a newer service sends what this program does not know.
  return '';
}

await mkdir(EVENTS, { recursive: true });
await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
process.once('SIGTERM', () => app.close());
while (app.server.listening) {
  await workOnKept().catch((fault) => console.error(fault));
  await pause(POLL_MS);
}
