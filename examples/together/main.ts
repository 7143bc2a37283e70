// The shop, its back office, Idempay and the Stripe adapter, joined on this machine by one command. It installs nothing. The guide is docs/guides/shop.md.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { STAND_IN_CARDS, STRIPE_TEST_CARDS, startStripeStandIn } from '../stripe-stand-in/stand-in.ts';
import { type Program, startProgram } from './program.ts';

const {
  STRIPE_SECRET_KEY,
  STRIPE_PUBLISHABLE_KEY,
  PORT = '3000',
  BACK_OFFICE_PORT = '3010',
  IDEMPAY_PORT = '8080',
} = process.env;
const [given] = process.argv.slice(2);

// A trial must not charge anybody.
if (STRIPE_SECRET_KEY && !/^[sr]k_test_/.test(STRIPE_SECRET_KEY)) {
  throw new Error('STRIPE_SECRET_KEY must be a key for tests (sk_test_... or rk_test_...): others charge real cards.');
}
if (STRIPE_PUBLISHABLE_KEY && !STRIPE_SECRET_KEY) {
  throw new Error('Set STRIPE_SECRET_KEY too: the cards of a page with Stripe are known at Stripe only.');
}

const programs: Program[] = [];
let isEnding = false;
const folder = given === undefined ? await mkdtemp(join(tmpdir(), 'idempay-example-')) : resolve(given);
await mkdir(folder, { recursive: true });
const stripe = STRIPE_SECRET_KEY ? undefined : await startStripeStandIn();

// npm passes a signal on that the terminal has sent already, so each may come twice.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0));

try {
  const adapter = await start('adapter', besideThis('stripe-adapter'), {
    ...(stripe && { STRIPE_API_URL: stripe.url, SETTLE_SECONDS: '10' }),
    STRIPE_SECRET_KEY: stripe?.secretKey ?? STRIPE_SECRET_KEY,
    PORT: '0',
  });
  const idempay = await start('idempay', fileURLToPath(import.meta.resolve('#idempay/main.js')), {
    PROCESSOR_URL: adapter.url,
    // The rows name the same processor after another start, whose adapter has another port.
    PROCESSOR_ACCOUNT: stripe ? 'stripe-stand-in' : 'stripe-tests',
    DATA_DIR: folder,
    PORT: IDEMPAY_PORT,
  });
  const cards = stripe ? STAND_IN_CARDS : STRIPE_TEST_CARDS;
  const shop = await start('shop', besideThis('shop'), {
    ...(STRIPE_PUBLISHABLE_KEY ? { STRIPE_PUBLISHABLE_KEY } : { TEST_CARDS: JSON.stringify(cards) }),
    IDEMPAY_URL: idempay.url,
    ORDERS: join(folder, 'orders.ndjson'),
    PORT,
  });
  const office = await start('back-office', besideThis('back-office'), {
    IDEMPAY_URL: idempay.url,
    ORDERS: join(folder, 'orders.ndjson'),
    RETURNS: join(folder, 'returns.ndjson'),
    PORT: BACK_OFFICE_PORT,
  });
  console.log(`The shop:    ${shop.url}
The office:  ${office.url}
The console: ${idempay.url}/console
The charges: ${stripe ? `${stripe.url}/charges, of a stand-in for Stripe: no money moves` : 'at Stripe, with your key for tests'}
Orders, payments and logs are in ${folder}${given === undefined ? ', which is removed at the end' : ''}. Ctrl-C ends all.`);
} catch (fault) {
  if (!isEnding) console.error((fault as Error).message);
  await end(1);
}

async function start(name: string, file: string, settings: Readonly<Record<string, string | undefined>>) {
  const log = join(folder, `${name}.log`);
  const program = startProgram({ name, file, settings, log });
  programs.push(program);
  void program.ended.then(() =>
    end(1, `${name} has ended, and with it the example. Its last lines:\n${program.lastLines()}`),
  );
  return { url: await program.listening };
}

/** The one that started last ends first, so that nobody misses an answer. */
async function end(code: number, why?: string): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  if (why !== undefined) console.error(why);
  for (const program of programs.toReversed()) await program.stop();
  await stripe?.close();
  if (given === undefined) await rm(folder, { recursive: true, force: true });
  process.exit(code);
}

/** Node.js runs the sources as they are, or what `tsc -p examples` made of them. */
function besideThis(name: string): string {
  return join(import.meta.dirname, '..', name, `main${extname(import.meta.filename)}`);
}
