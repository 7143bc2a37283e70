import { useState } from 'preact/hooks';
import type { Access } from '../../access/session.js';
import { hashOf, navigate } from '../../navigation/route.js';
import { Badge, StatusBadge } from '../../parts/badge.js';
import { Money } from '../../parts/money.js';
import { ErrorState, LoadingState, Note } from '../../parts/states.js';
import { Time } from '../../parts/time.js';
import { isFinal, type Payment } from '../payment.js';
import { PendingInShort } from '../pending.js';
import { ResolutionNote, type ResolutionResult } from '../resolution-note.js';
import { isZero, leftOf, type Refund, signedAmountOf } from './refund.js';
import { RefundDetails } from './refund-details.js';
import { RefundDialog } from './refund-dialog.js';
import { type RefundOutcome, useRefundRequest } from './use-refund-request.js';
import { useRefunds } from './use-refunds.js';

interface Properties {
  readonly access: Access;
  readonly payment: Payment;
  /** The key of the refund whose details are shown. */
  readonly selected: string | null;
  /** The payment is to be read again. */
  changed(): void;
}

/** The refunds of a payment that was paid, and the form for another one. */
export function PaymentRefunds(properties: Properties) {
  const { access, payment } = properties;
  const isOfInterest = access.may('refunds:write') || payment.refunded !== undefined;
  return payment.state === 'COMPLETED' && isOfInterest ? <Refunds {...properties} /> : null;
}

function Refunds({ access, payment, selected, changed }: Properties) {
  const { http, may } = access;
  const mayRefund = may('refunds:write');
  const [isDeciding, setDeciding] = useState(false);
  const [resolved, setResolved] = useState<ResolutionResult>();
  const [outcome, setOutcome] = useState<RefundOutcome>();
  const refunds = useRefunds(http, payment, { isPaused: isDeciding, changed });
  const { answer: all = [], problem, again } = refunds;
  const look = () => {
    changed();
    again();
  };
  const asked = useRefundRequest(http, payment, all, { look, ended: setOutcome });
  const left = leftOf(payment);
  return (
    <section class="panel payment-refunds" aria-labelledby="payment-refunds">
      <header>
        <h2 id="payment-refunds">Refunds</h2>
        {mayRefund && (!isZero(left) || asked.isFixed) && (
          <button type="button" onClick={() => asked.open()}>
            {asked.isFixed ? 'Send the refund again…' : 'Refund…'}
          </button>
        )}
      </header>
      <p class="refunded">
        <Refunded payment={payment} left={left} />
      </p>
      {outcome && (
        <Note isDone={outcome.isMade} dismiss={() => setOutcome(undefined)}>
          <p>
            <bdi>{outcome.sentence}</bdi>
          </p>
        </Note>
      )}
      {resolved && <ResolutionNote result={resolved} dismiss={() => setResolved(undefined)} />}
      {problem && <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />}
      {!refunds.answer && !problem && <LoadingState what="the refunds" />}
      {all.length > 0 && (
        <ul class="refunds" aria-label="Refunds of this payment, oldest first">
          {all.map((refund) => {
            const isSelected = refund.idempotencyKey === selected;
            const isHeldBack = asked.isFixed && asked.request.name !== refund.refund.name;
            return (
              <li key={refund.idempotencyKey}>
                <RefundHead
                  refund={refund}
                  isSelected={isSelected}
                  // The details hold a decision that was begun.
                  isHeld={isDeciding}
                  repeat={mayRefund && !isFinal(refund) && !isHeldBack ? () => asked.open(refund) : undefined}
                />
                {isSelected && (
                  <RefundDetails
                    access={access}
                    refund={refund}
                    isDeciding={isDeciding}
                    decide={setDeciding}
                    ended={(result) => {
                      setResolved(result);
                      look();
                    }}
                  />
                )}
              </li>
            );
          })}
        </ul>
      )}
      {asked.isOpen && <RefundDialog payment={payment} {...asked} />}
    </section>
  );
}

function Refunded({ payment: { amount, currency, refunded }, left }: { payment: Payment; left: string }) {
  if (refunded === undefined) {
    return (
      <>
        Nothing of <Money amount={amount} currency={currency} /> was refunded.
      </>
    );
  }
  return (
    <>
      Refunded <Money amount={refunded} /> of <Money amount={amount} currency={currency} />{' '}
      <span class="muted">({isZero(left) ? 'nothing' : <Money amount={left} currency={currency} />} is left)</span>
    </>
  );
}

function RefundHead({
  refund,
  isSelected,
  isHeld,
  repeat,
}: {
  refund: Refund;
  isSelected: boolean;
  isHeld: boolean;
  repeat: (() => void) | undefined;
}) {
  const { idempotencyKey, state, currency, claimedAt, reason } = refund;
  const { payment, name, reason: why } = refund.refund;
  const toggled = isSelected ? {} : { refund: idempotencyKey };
  return (
    <>
      <div class="refund-head">
        <Badge>refund</Badge>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        <Money amount={signedAmountOf(refund)} currency={currency} />
        <StatusBadge status={state} />
        <Time at={claimedAt} />
        <span class="actions">
          {repeat && (
            <button type="button" aria-label={`Send the refund ${name} again…`} onClick={repeat}>
              Send again…
            </button>
          )}
          <button
            type="button"
            disabled={isHeld}
            aria-expanded={isSelected}
            aria-label={`Details of the refund ${name}`}
            onClick={() => navigate(hashOf('payment', payment, toggled), { replace: true })}
          >
            Details
          </button>
        </span>
      </div>
      <PendingInShort payment={refund} />
      {why !== null && (
        <p class="detail">
          <bdi>{why}</bdi>
        </p>
      )}
      {reason !== null && (
        <p class="detail problem">
          <bdi>{reason}</bdi>
        </p>
      )}
    </>
  );
}
