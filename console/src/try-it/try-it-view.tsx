import type { PaymentRequest } from '@idempay/client';
import { useState } from 'preact/hooks';
import type { Session } from '../access/session.js';
import type { ViewProperties } from '../navigation/route.js';
import { Copyable } from '../parts/copy-button.js';
import { EmptyState } from '../parts/states.js';
import type { Call } from './call.js';
import { ShownStep } from './shown-step.js';
import { type Exchange, exchange, generateKeyCall, keyIn, noteOfTwo, payCall, statusCall, waiting } from './steps.js';
import { useSteps } from './use-steps.js';
import './try-it.css';

/** The protocol by hand, where no money moves: each button is a request, with its command and its answer. */
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
  const [isBusy, setBusy] = useState(false);
  const key = steps.find((step) => step.key !== undefined)?.key;
  const hasCredential = session.access === 'required';
  const slowDown =
    session.processor.name === 'simulated'
      ? 'To see one, start the service with PROCESSOR_DELAY_MS=3000: then each payment takes 3 seconds.'
      : 'To see one, slow the reference processor down: send {"latencyMs":3000} with PATCH to its /behaviour.';

  /** Runs one step after the other: each is about the key of the one before. */
  async function run(title: string, work: (show: Show) => Promise<void>, about?: string): Promise<void> {
    setBusy(true);
    const change = begin(title, about);
    const exchanges: Exchange[] = [];
    try {
      await work({
        change,
        async send(calls) {
          const place = exchanges.length;
          return exchange(http, calls, mayPay, (shown) => {
            exchanges[place] = shown;
            change({ exchanges: [...exchanges] });
          });
        },
      });
    } finally {
      setBusy(false);
    }
  }

  const twoAtOnce = (title: string, duplicateWaits: boolean) =>
    run(title, async ({ change, send }) => {
      const fresh = keyIn(await send([generateKeyCall]));
      if (fresh === undefined) return;
      change({ key: fresh });
      const { outcomes } = await send([
        payCall(fresh, payment),
        payCall(fresh, payment, duplicateWaits ? waiting : {}),
      ]);
      change({ note: noteOfTwo(outcomes, duplicateWaits, slowDown) });
    });

  const single = (title: string, call: Call, about: string) =>
    run(title, async ({ send }) => void (await send([call])), about);

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
        <div class="body-fields">
          <Field name="Amount" value={payment.amount} set={(amount) => setPayment({ ...payment, amount })} />
          <Field name="Currency" value={payment.currency} set={(currency) => setPayment({ ...payment, currency })} />
          <div class="key">
            <span class="muted">Key</span>
            {key === undefined ? <span>none yet: generate one</span> : <Copyable text={key} what="the key" />}
          </div>
        </div>
        <div class="buttons">
          <button
            type="button"
            class={key === undefined ? 'primary' : undefined}
            disabled={isBusy}
            onClick={() =>
              run('Generate a key', async ({ change, send }) => {
                change({ key: keyIn(await send([generateKeyCall])) });
              })
            }
          >
            Generate a key
          </button>
          {key !== undefined && (
            <>
              <button
                type="button"
                class="primary"
                disabled={isBusy}
                onClick={() => single('Pay, or repeat the payment', payCall(key, payment), key)}
              >
                Pay, and repeat
              </button>
              {may('payments:read', 'operations') && (
                <button
                  type="button"
                  disabled={isBusy}
                  onClick={() => single('Ask for the status', statusCall(key), key)}
                >
                  Ask for the status
                </button>
              )}
            </>
          )}
          <button type="button" disabled={isBusy} onClick={() => twoAtOnce('Pay twice at once', false)}>
            Pay twice at once
          </button>
          <button
            type="button"
            disabled={isBusy}
            onClick={() => twoAtOnce('Pay twice, and let the duplicate wait', true)}
          >
            Pay twice, and wait
          </button>
        </div>
      </section>
      {steps.length === 0 ? (
        <EmptyState title="What you try appears here">
          Generate a key, pay with it, and press the same button again: the second answer is the stored result.
        </EmptyState>
      ) : (
        <ol class="steps" aria-live="polite" aria-label="What was tried, the latest first">
          {steps.map((step) => (
            <ShownStep
              key={step.number}
              step={step}
              hasCredential={hasCredential}
              showsTimeline={may('payments:read', 'operations')}
            />
          ))}
        </ol>
      )}
    </div>
  );
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
