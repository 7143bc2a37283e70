import { startStripeStandIn } from '../../examples/stripe-stand-in/stand-in.js';
import { compileExamples } from '../processes/examples.js';
import { sendCharge } from '../processes/reference-processor.js';
import type { Service } from '../processes/service.js';
import { freePort } from '../servers/server-process.js';
import { embedded } from './deployments.js';

/** Longer than any request to the stand-in takes. */
const SETTLE_SECONDS = '1';
const STRIPE_TIMEOUT_MS = '3000';
const PROCESSOR_TIMEOUT_MS = '4000';
/** More than the time-out; short, so that takeovers come soon. */
const LOCK_TTL_SECONDS = '6';

export type StripeEnvironment = Awaited<ReturnType<typeof openStripeEnvironment>>;

/** Idempay, the adapter of `examples/` as a process at an address that stays the same, and a stand-in for Stripe. */
export async function openStripeEnvironment(random?: () => number, changed: Record<string, string> = {}) {
  const [stripe, examples, stores, port] = await Promise.all([
    startStripeStandIn(random),
    compileExamples(),
    embedded.open(),
    freePort(),
  ]);
  const usual = {
    PORT: `${port}`,
    STRIPE_API_URL: stripe.url,
    STRIPE_SECRET_KEY: stripe.secretKey,
    STRIPE_PAYMENT_METHOD: 'pm_card_visa',
    STRIPE_TIMEOUT_MS,
    SETTLE_SECONDS,
    ...changed,
  };
  let adapter: Service = await examples.start('stripe-adapter', usual);
  const url = `http://127.0.0.1:${port}`;
  const service = await stores.serve({ PROCESSOR_URL: url, PROCESSOR_TIMEOUT_MS, LOCK_TTL_SECONDS });
  return {
    stripe,
    url: service.url,
    logs: service.logs,
    adapterUrl: url,
    adapterLogs: () => adapter.logs,
    charge: (reference: string, charged: { amount: string; currency: string } & Readonly<Record<string, unknown>>) =>
      sendCharge(url, reference, { transactionId: 'TXN1', ...charged }),
    /** One more process of the adapter, at an address of its own. */
    async startAnotherAdapter() {
      const other = await examples.start('stripe-adapter', { ...usual, PORT: '0' });
      return { url: other.url, kill: () => other.kill() };
    },
    /** Its work ends in the middle. */
    async restartAdapter(more: Record<string, string> = {}): Promise<void> {
      await adapter.kill();
      adapter = await examples.start('stripe-adapter', { ...usual, ...more });
    },
    async close(): Promise<void> {
      await stores.close();
      await adapter.kill();
      await stripe.close();
      await examples.remove();
    },
  };
}
