import type { Logger } from 'pino';
import { StoreUnavailable } from '../platform/faults.js';
import type { WebhookEvents } from '../webhooks/webhook-events.js';
import type { StoreLog } from './store-log.js';

/** The log of webhooks. Nothing that a receiver has answered is in it. */
export function createWebhookLog(logger: Logger, storeLog: Pick<StoreLog, 'refused'>): WebhookEvents {
  return {
    fault(fault) {
      if (fault instanceof StoreUnavailable) storeLog.refused(fault, 'background');
      else logger.error({ err: fault }, 'a part of the deliveries to webhooks failed; it is tried again');
    },
    setAside: (endpoint, cause) =>
      logger.warn({ endpoint, cause }, 'a webhook refused a settlement again and again: it is set aside'),
    standsStill: (endpoint, most) =>
      logger.error(
        { endpoint, setAside: most },
        'too many settlements are set aside for the webhook to get others: repair the receiver, then send them again with idempay webhooks resend',
      ),
    stoppedByReceiver: (endpoint) =>
      logger.error(
        { endpoint },
        'the webhook answered 410 and gets nothing more: remove it from WEBHOOKS_FILE, or run idempay webhooks start',
      ),
    passedByRetention: (endpoint) =>
      logger.error(
        { endpoint },
        'PAYMENT_RETENTION_DAYS removed settlements before they were delivered to the webhook: it goes on with the oldest that is left',
      ),
    beganEarlier: (endpoint) =>
      logger.warn(
        { endpoint },
        'rows may be lost, so the webhook gets the settlements of the last ten minutes once more',
      ),
    setAsideRemoved: (endpoint) =>
      logger.warn({ endpoint }, 'a settlement that was set aside is removed: the webhook never gets it'),
  };
}
