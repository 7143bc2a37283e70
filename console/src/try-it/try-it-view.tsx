import type { PaymentRequest } from '@idempay/client';
import { useState } from 'preact/hooks';
import type { Session } from '../access/session.js';
import type { ViewProperties } from '../navigation/route.js';
import { Copyable } from '../parts/copy-button.js';
import { EmptyState } from '../parts/states.js';
import type { Call } from './call.js';
import { NOTE_OF_KEY, noteOfPayment, noteOfStatus, noteOfTwo } from './notes.js';
import { ShownStep } from './shown-step.js';
import {
  type Exchange,
  exchange,
  generateKeyCall,
  keyIn,
  keyOfPayment,
  type Order,
  type PaymentName,
  payCall,
  type Step,
  statusCall,
  waiting,
} from './steps.js';
import { useSteps } from './use-steps.js';
import './try-it.css';

/** The protocol by hand, if no money moves: each button is a request, with its command and its answer. */
export default function TryItView(properties: ViewProperties) {
  const { http, session } = properties;
  const [{ movesMoney, name }, setProcessor] = useState(session.processor);

  /** The service may have been started anew since the sign-in, with a processor that moves money. */
  async function mayPay(): Promise<boolean> {
    const { processor } = (await http.ask<Session>('api/session')).body;
    setProcessor(processor);
    return processor.movesMoney === false;
  }

  if (movesMoney === false) return <TryIt {...properties} mayPay={mayPay} />;
  return (
    <div class="try-it-view">
      <div class="view-head">
        <h1>Try it</h1>
      </div>
      <EmptyState title="Nothing is tried here">
        {movesMoney ? (
          <>
            The processor <bdi>{name}</bdi> moves money: a payment from this page would be a real one.
          </>
        ) : (
          <>
            The processor <bdi>{name}</bdi> has not answered yet, so it is not known whether it moves money. Reload the
            page once it does.
          </>
        )}{' '}
        Payments can be tried with the simulated processor (without <code>PROCESSOR_URL</code>), or with one that
        answers <code>Moves-Money: no</code>.
      </EmptyState>
    </div>
  );
}

function TryIt({ http, session, may, mayPay }: ViewProperties & { mayPay(): Promise<boolean> }) {
  const [payment, setPayment] = useState<PaymentRequest>({ amount: '100.50', currency: 'USD' });
  const { steps, begin, clear } = useSteps(http);
  const [reference, setReference] = useState(() => lastIn(steps, 'reference') ?? newReference());
  const [attempt, setAttempt] = useState('1');
  const [isBusy, setBusy] = useState(false);
  const order: Order = attempt === '1' ? { reference } : { reference, attempt };
  const key = lastIn(steps, 'key');

  function choose(other: string): void {
    setReference(other);
    setAttempt('1');
  }

  const mayAsk = may('payments:read', 'operations');
  const slowDown =
    session.processor.name === 'simulated'
      ? 'To see one, start the service with PROCESSOR_DELAY_MS=3000: then each payment takes 3 seconds.'
      : 'To see one, slow the reference processor down: send {"latencyMs":3000} with PATCH to its /behaviour.';

  /** Shows as a step what `work` sends and gets. */
  async function run(title: string, work: (show: Show) => Promise<void>, about?: PaymentName): Promise<void> {
    setBusy(true);
    const change = begin(title, about);
    try {
      await work({
        change,
        async send(calls) {
          const done = await exchange(http, calls, mayPay, (shown) => change({ exchange: shown }));
          if (about && 'reference' in about) change({ key: keyOfPayment(done) });
          return done;
        },
      });
    } finally {
      setBusy(false);
    }
  }

  const generate = () =>
    run('Generate a key', async ({ change, send }) => {
      const fresh = keyIn(await send([generateKeyCall]));
      if (fresh !== undefined) change({ about: { key: fresh }, key: fresh, note: NOTE_OF_KEY });
    });

  const single = (title: string, call: Call, about: PaymentName, noteOf: typeof noteOfPayment) =>
    run(
      title,
      async ({ change, send }) => {
        const [outcome] = (await send([call])).outcomes;
        if (outcome) change({ note: noteOf(outcome, about) });
      },
      about,
    );
  const pay = (title: string, name: PaymentName) =>
    single(isSentBefore(steps, name) ? `${title} again` : title, payCall(name, payment), name, noteOfPayment);
  const ask = (title: string, name: PaymentName) => single(title, statusCall(name), name, noteOfStatus);

  /** A new order, because a paid one would only be answered with its stored result. */
  function twoAtOnce(title: string, duplicateWaits: boolean): Promise<void> {
    const fresh = { reference: newReference() };
    choose(fresh.reference);
    return run(
      title,
      async ({ change, send }) => {
        const { outcomes } = await send([
          payCall(fresh, payment),
          payCall(fresh, payment, duplicateWaits ? waiting : {}),
        ]);
        change({ note: noteOfTwo(outcomes, duplicateWaits, slowDown) });
      },
      fresh,
    );
  }

  const button = (name: string, press: () => void, kind?: 'primary' | 'quiet') => (
    <button type="button" class={kind} disabled={isBusy} onClick={press}>
      {name}
    </button>
  );

  return (
    <div class="try-it-view">
      <div class="view-head">
        <h1>Try it</h1>
        <button type="button" class="quiet" disabled={steps.length === 0 || isBusy} onClick={clear}>
          Forget the steps
        </button>
      </div>
      <section class="panel controls" aria-label="Requests">
        <p class="muted">
          No money moves here: the processor is <bdi>{session.processor.name}</bdi>. But each payment is kept, and stays
          in the list of payments.
        </p>
        <div class="fields">
          <Field name="Amount" value={payment.amount} set={(amount) => setPayment({ ...payment, amount })} />
          <Field name="Currency" value={payment.currency} set={(currency) => setPayment({ ...payment, currency })} />
        </div>
        <div class="way">
          <h2>First: an order, by its reference</h2>
          <p>
            One request pays the order, and the client stores nothing before it. If there is no clear answer (408, 409,
            429, any 5xx, or none), the client sends the same again. The order is charged once, and every success has
            the same transaction id.
          </p>
          <div class="fields">
            <Field name="Reference" value={reference} set={choose} />
            <Field name="Attempt" value={attempt} set={setAttempt} />
            {button('New order', () => choose(newReference()), 'quiet')}
          </div>
          <div class="buttons">
            {button('Pay the order', () => pay('Pay the order', order), 'primary')}
            {mayAsk && button('Ask for the order', () => ask('Ask for the order', order))}
            {button('Pay a new order twice at once', () => twoAtOnce('Pay an order twice at once', false))}
            {button('Pay a new order twice, and wait', () =>
              twoAtOnce('Pay an order twice, and let the duplicate wait', true),
            )}
          </div>
        </div>
        <div class="way">
          <h2>Second: a key, for what has no number of its own</h2>
          <p>
            The service generates a key, and the client stores it before it pays. If there is no clear answer, the
            client sends the same again with the same key. It never takes a new key for the same purchase.
          </p>
          {key !== undefined && (
            <div class="key">
              <span class="muted">Key</span>
              <Copyable text={key} what="the key" />
            </div>
          )}
          <div class="buttons">
            {button('Generate a key', generate)}
            {key !== undefined && button('Pay with the key', () => pay('Pay with the key', { key }))}
            {key !== undefined && mayAsk && button('Ask for the key', () => ask('Ask for the key', { key }))}
          </div>
        </div>
      </section>
      {steps.length === 0 ? (
        <EmptyState title="What you try appears here">
          Pay the order, and press the same button again: the second answer is the stored result.
        </EmptyState>
      ) : (
        <ol class="steps" aria-live="polite" aria-label="What was tried, the latest first">
          {steps.map((step) => (
            <ShownStep
              key={step.number}
              step={step}
              hasCredential={session.access === 'required'}
              showsTimeline={mayAsk}
            />
          ))}
        </ol>
      )}
    </div>
  );
}

/** An order that nobody has paid yet, very probably. */
const newReference = () => `order-${100_000 + Math.floor(Math.random() * 900_000)}`;

/** True if an earlier step sent the payment, with any result. */
function isSentBefore(steps: readonly Step[], name: PaymentName): boolean {
  const sent = JSON.stringify(name);
  return steps.some(
    ({ about, exchange }) => JSON.stringify(about) === sent && exchange?.calls.some(({ method }) => method === 'POST'),
  );
}

/** The order, or the key, that was tried last. */
function lastIn(steps: readonly Step[], kind: 'reference' | 'key'): string | undefined {
  for (const { about } of steps) {
    if (about && kind in about) return 'key' in about ? about.key : about.reference;
  }
  return undefined;
}

interface Show {
  change: ReturnType<ReturnType<typeof useSteps>['begin']>;
  send(calls: readonly Call[]): Promise<Exchange>;
}

function Field({ name, value, set }: { name: string; value: string; set(value: string): void }) {
  return (
    <label>
      {name}
      <input
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
    </label>
  );
}
