import { useEffect, useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import type { Http } from '../http/http.js';
import type { ViewProperties } from '../navigation/route.js';
import { hashOf, navigate } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Copyable } from '../parts/copy-button.js';
import { Fact } from '../parts/facts.js';
import { Money } from '../parts/money.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import { Time } from '../parts/time.js';
import { type Asked, useAnswer } from '../parts/use-answer.js';
import { ContentFacts } from './content.js';
import { OrderFacts } from './order-facts.js';
import { isWholeKey, type Payment, TIMELINE_SCOPES, type Timeline } from './payment.js';
import { PaymentClosing } from './payment-closing.js';
import { EndingNote, PaymentEnding } from './payment-ending.js';
import { EndingFact, PendingFacts } from './pending.js';
import { PaymentRefunds } from './refunds/payment-refunds.js';
import { Resolution } from './resolution.js';
import { ResolutionNote, type ResolutionResult } from './resolution-note.js';
import { TimelineList } from './timeline.js';
import { useOtherAttempts } from './use-other-attempts.js';
import { usePayment } from './use-payment.js';
import './payments.css';

/** One payment: its record, its events, its next step, and an operator's actions. */
export default function PaymentView(properties: ViewProperties) {
  const key = properties.route.rest.trim();
  // Another payment begins with nothing of this one: no decision that was begun, and no note.
  return <OnePayment key={key} name={key} access={properties} refund={properties.route.query.get('refund')} />;
}

function OnePayment({ name: key, access, refund }: { name: string; access: Access; refund: string | null }) {
  const { http, may } = access;
  const [isDeciding, setDeciding] = useState(false);
  const [resolved, setResolved] = useState<ResolutionResult>();
  /** The result of an ending that a person asked for here. */
  const [ended, setEnded] = useState<string>();
  const watched = usePayment(http, key, { isPaused: isDeciding, seesTimeline: may(...TIMELINE_SCOPES) });
  const { seen, timeline, isUnknown, problem, timelineProblem, again } = watched;
  const payment = seen?.payment;
  const others = useOtherAttempts(http, payment);
  const isForOperator = payment?.state === 'PROCESSING' && may('operations');
  return (
    <div class="payment-view">
      <div class="view-head">
        <div>
          <a class="back" href={hashOf('payments')}>
            Payments
          </a>
          <h1>
            {payment?.state === 'PENDING' ? 'Key without a payment' : 'Payment'}
            {payment && <StatusBadge status={payment.state} />}
          </h1>
        </div>
        <div class="actions">
          {payment && (
            <>
              <PaymentClosing access={access} payment={payment} others={others} closed={again} />
              <PaymentEnding
                access={access}
                payment={payment}
                isAtWork={timeline?.next.what === 'under way'}
                look={again}
                ended={(sentence) => {
                  setEnded(sentence);
                  again();
                  others.again();
                }}
              />
            </>
          )}
          <button
            type="button"
            onClick={() => {
              again();
              others.again();
            }}
          >
            Refresh
          </button>
        </div>
      </div>
      {resolved && <ResolutionNote result={resolved} dismiss={() => setResolved(undefined)} />}
      <EndingNote sentence={ended} dismiss={() => setEnded(undefined)} />
      {isUnknown && <Unknown http={http} text={key} />}
      {problem && <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />}
      {!payment && !isUnknown && !problem && <LoadingState what="the payment" />}
      {payment && (
        <div class="payment-body">
          <section class="panel summary">
            <Facts payment={payment} life={timeline} others={others} />
          </section>
          {(isForOperator || isDeciding) && seen && (
            <Resolution
              http={http}
              seen={seen}
              next={timeline?.next}
              decide={setDeciding}
              ended={(result) => {
                setResolved(result);
                again();
              }}
            />
          )}
          {(timeline || timelineProblem) && (
            <section class="panel">
              <header>
                <h2>Timeline</h2>
              </header>
              {timeline && <TimelineList life={timeline} state={payment.state} />}
              {timelineProblem && <ErrorState sentence={timelineProblem} />}
            </section>
          )}
          <PaymentRefunds access={access} payment={payment} selected={refund} changed={again} />
        </div>
      )}
    </div>
  );
}

/** The key may be a refund's: then its payment is shown, which it is a part of. */
function Unknown({ http, text }: { http: Http; text: string }) {
  const { answer, isLoading } = useAnswer(
    async (signal) => (isWholeKey(text) ? await paymentOfRefund(http, text.toLowerCase(), signal) : undefined),
    [http, text],
  );
  useEffect(() => {
    if (answer !== undefined) navigate(hashOf('payment', answer, { refund: text.toLowerCase() }), { replace: true });
  }, [answer, text]);
  if (isLoading || answer !== undefined) return <LoadingState what="the payment" />;
  return (
    <EmptyState title={`No payment has the key ${text === '' ? 'that is missing here' : `“${text}”`}`}>
      The key was never issued, has expired unpaid, belongs to another client, or its payment is older than payments are
      kept. <a href={hashOf('payments', '', { find: text.slice(0, 8), kind: 'all' })}>Look for what begins like it</a>
    </EmptyState>
  );
}

/** The key of the payment; undefined if no refund has this key. */
async function paymentOfRefund(http: Http, key: string, signal: AbortSignal): Promise<string | undefined> {
  const query = { find: key, kind: 'refund', limit: 1 };
  const { body } = await http.ask<Payment[]>('api/payments', { query, signal });
  return body.find(({ idempotencyKey }) => idempotencyKey === key)?.refund?.payment;
}

function Facts({
  payment,
  life,
  others,
}: {
  payment: Payment;
  life: Timeline | undefined;
  others: Asked<readonly Payment[]>;
}) {
  const { state, amount, currency, transactionId, processor, processorId, executions, reason, resolution } = payment;
  return (
    <>
      {amount !== null && (
        <p class="amount">
          <Money amount={amount} currency={currency} />
        </p>
      )}
      {state === 'CANCELLED' && <p class="amount">Closed: no charge is sent</p>}
      <dl class="facts">
        <OrderFacts payment={payment} others={others} />
        {payment.client !== undefined && (
          <Fact name="Client">
            <bdi>{payment.client}</bdi>
          </Fact>
        )}
        <ContentFacts payment={payment} />
        <Fact name="Key">
          <Copyable text={payment.idempotencyKey} what="the key" />
        </Fact>
        {transactionId !== null && (
          <Fact name="Transaction">
            <Copyable text={transactionId} what="the transaction id" />
          </Fact>
        )}
        {processor !== null && (
          <Fact name="Processor">
            <bdi>{processor}</bdi>
          </Fact>
        )}
        {processorId !== undefined && (
          <Fact name="At the processor">
            <Copyable text={processorId} what="the processor’s own id" />
          </Fact>
        )}
        {payment.createdAt !== null && (
          <Fact name="Generated">
            <Time at={payment.createdAt} />
          </Fact>
        )}
        {state === 'PENDING' && <Fact name="Paid">Nobody has paid with this key yet.</Fact>}
        {state === 'CANCELLED' && (
          <Fact name="Closed">
            <Time at={payment.settledAt} />
          </Fact>
        )}
        {state !== 'PENDING' && state !== 'CANCELLED' && (
          <>
            <Fact name="Claimed">
              <Time at={payment.claimedAt} />
            </Fact>
            <PendingFacts payment={payment} life={life} />
            <Fact name="Settled">
              <Time at={payment.settledAt} />
            </Fact>
            <Fact name="Executions">{executions}</Fact>
          </>
        )}
        <EndingFact payment={payment} />
        {reason !== null && (
          <Fact name="Reason">
            <bdi>{reason}</bdi>
          </Fact>
        )}
        {resolution !== null && (
          <Fact name="Resolution">
            <bdi>{resolution}</bdi>
          </Fact>
        )}
      </dl>
    </>
  );
}
