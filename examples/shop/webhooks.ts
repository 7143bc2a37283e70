import { type Idempay, InvalidWebhookError, verifyWebhook, type WebhookEvent } from '@idempay/client';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { finishOrder } from './open-orders.ts';
import { findOrder } from './orders.ts';

/** The path to which Idempay sends how payments ended, so that an order is finished at once although its page is closed. */
export const webhooks =
  (idempay: Idempay, secrets: readonly string[]): FastifyPluginAsync =>
  async (app) => {
    // The signature is about the bytes that arrived, so nothing may parse them before. Other paths parse as before.
    app.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer' },
      async (_: FastifyRequest, body: Buffer) => body,
    );
    app.post<{ Body: Buffer }>('/webhooks/idempay', async ({ headers, body }, reply) => {
      try {
        const isSeen = await finishOrderOf(idempay, await verifyWebhook(headers, body, secrets));
        // If payments do not answer now, Idempay sends the message again.
        return reply.code(isSeen ? 204 : 503).send();
      } catch (error) {
        if (!(error instanceof InvalidWebhookError)) throw error;
        console.error(`${error.why}: ${error.message}`);
        return reply.code(400).send('The message was not taken.');
      }
    });
  };

/**
 * The message only says at which order to look. The shop asks Idempay with its own key, so that an order of the same number in another shop
 * changes nothing here. No id is kept, because an order that has ended is not looked at again. Resolves to false if there was no answer.
 */
async function finishOrderOf(idempay: Idempay, { data }: WebhookEvent): Promise<boolean> {
  const [, id = ''] = /^order-(.+)$/.exec(data.reference ?? '') ?? [];
  const order = await findOrder(id);
  if (!order || order.end) return true;
  return (await finishOrder(idempay, order)).status !== 503;
}
