import type { Webhook } from '#idempay/client';
import { type ConnectionOptions, connect } from '../connection.js';
import { type Column, type OutputOptions, printRecord, printRows } from '../output/results.js';

type Common = ConnectionOptions & OutputOptions;

const COLUMNS: readonly Column<Webhook>[] = [
  { title: 'name', of: ({ name }) => name },
  { title: 'stopped by', of: ({ stoppedBy }) => stoppedBy },
  { title: 'set aside', of: ({ setAside }) => setAside },
  { title: 'delivered until', of: ({ deliveredUntil }) => deliveredUntil },
  { title: 'client', of: ({ client }) => client },
  { title: 'behind', of: ({ behind }) => behind },
  { title: 'receiver', of: ({ receiver }) => receiver },
];

export async function listWebhooks(options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRows(await idempay.webhooks.list(call), COLUMNS, options);
}

/** The settlements that are set aside. */
export async function listSetAside(name: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  const { settlements } = await idempay.webhooks.get(name, call);
  await printRows(
    settlements,
    [
      { title: 'key', of: ({ idempotencyKey }) => idempotencyKey },
      { title: 'set aside', of: ({ setAsideAt }) => setAsideAt },
      { title: 'next try', of: ({ nextTryAt }) => nextTryAt },
      { title: 'cause', of: ({ cause }) => cause },
    ],
    options,
  );
}

export async function startWebhook(name: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.webhooks.start(name, call), options);
}

export async function stopWebhook(name: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.webhooks.stop(name, call), options);
}

export async function resend(name: string, { key, ...options }: Common & { key?: string | undefined }): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord({ resent: await idempay.webhooks.resend(name, { ...call, key }) }, options);
}
