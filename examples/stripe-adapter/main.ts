// Speaks docs/reference/processor.md to Idempay and Stripe's API to Stripe. The guide is docs/guides/stripe.md.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createCharges } from './charges.ts';
import { createIntents } from './intents.ts';
import { noPayer, onePayer, payersBySource, payersOfShop } from './payers.ts';
import { createRefunds } from './refunds.ts';
import { createAdapter } from './server.ts';
import { createStripe } from './stripe.ts';

const {
  STRIPE_SECRET_KEY,
  /** Stripe itself, or a stand-in. */
  STRIPE_API_URL = 'https://api.stripe.com',
  /** For payments without a source: the address at which the shop tells whose money it is, or one payment method for trials. */
  PAYER_URL,
  STRIPE_PAYMENT_METHOD,
  HOST = '127.0.0.1',
  PORT = '8091',
  /** As in PROCESSOR_URL. Needed if others reach the adapter. */
  ADAPTER_PASSWORD,
  /** Less than PROCESSOR_TIMEOUT_MS of Idempay. */
  STRIPE_TIMEOUT_MS = '8000',
  /** Longer than Stripe can take for one request; its own libraries give up after 80 s. */
  SETTLE_SECONDS = '120',
  LIST_PAGES = '50',
  /** The seconds that a payer may take at the bank's page. A later look-up ends the payment. */
  PENDING_SECONDS = '3600',
} = process.env;

if (!STRIPE_SECRET_KEY) throw new Error('Set STRIPE_SECRET_KEY to a secret or restricted key of your Stripe account.');
if (PAYER_URL && STRIPE_PAYMENT_METHOD)
  throw new Error('Set PAYER_URL, or STRIPE_PAYMENT_METHOD for a trial, not both.');
if (HOST !== '127.0.0.1' && !ADAPTER_PASSWORD) throw new Error('Set ADAPTER_PASSWORD: others can reach this HOST.');

const stripe = createStripe({ url: STRIPE_API_URL, secretKey: STRIPE_SECRET_KEY });
const withoutSource = STRIPE_PAYMENT_METHOD ? onePayer(STRIPE_PAYMENT_METHOD) : noPayer;
const payers = payersBySource(PAYER_URL ? payersOfShop(PAYER_URL) : withoutSource);
const pages = numberOf('LIST_PAGES', LIST_PAGES);
const timeoutMs = numberOf('STRIPE_TIMEOUT_MS', STRIPE_TIMEOUT_MS);
const settleMs = numberOf('SETTLE_SECONDS', SETTLE_SECONDS) * 1000;
const intents = createIntents(stripe, {
  pages,
  listMs: timeoutMs / 2,
  pendingMs: numberOf('PENDING_SECONDS', PENDING_SECONDS) * 1000,
});
const charges = createCharges(intents, payers, { timeoutMs, settleMs });
const refunds = createRefunds(stripe, intents, { timeoutMs, settleMs, pages });
const server = createAdapter({ charges, refunds }, ADAPTER_PASSWORD);
server.listen(Number(PORT), HOST);
await once(server, 'listening');
console.log(JSON.stringify({ msg: 'listening', port: (server.address() as AddressInfo).port }));

// Requests that are under way end first.
process.once('SIGTERM', () => server.close());
process.once('SIGINT', () => server.close());

function numberOf(name: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Error(`${name} must be a whole number.`);
}
