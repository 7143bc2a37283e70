import { Webhook } from 'standardwebhooks';
import { isoTime, paymentJson } from '../payments/history/payment-representation.js';
import type { PaymentRecord } from '../payments/ports/payment-history.js';
import type { Endpoint } from './endpoint-file.js';

/** One settlement for one endpoint, in the format of Standard Webhooks 1.0. It is the same in each try, but for its time and signature. */
export interface Message {
  readonly id: string;
  readonly body: string;
}

/** `client`: the endpoint's, which sees what the client itself would see. If undefined, what an operator sees. */
export function messageOf(record: PaymentRecord, client: string | undefined): Message {
  const state = record.state.toLowerCase();
  const kind = 'refund' in record && record.refund ? 'refund' : 'payment';
  const type = JSON.stringify(`${kind}.${state}`);
  const timestamp = JSON.stringify(isoTime(record.settledAt));
  const data = paymentJson(record, client);
  return { id: `${record.key}.${state}`, body: `{"type":${type},"timestamp":${timestamp},"data":${data}}` };
}

/** The headers of one try, with a signature of each secret. `nowMs`: the time of the try. */
export function signedHeaders({ id, body }: Message, { secrets }: Pick<Endpoint, 'secrets'>, nowMs: number) {
  const at = new Date(nowMs);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(nowMs / 1_000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
  };
}
