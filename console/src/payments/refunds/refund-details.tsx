import type { Access } from '../../access/session.js';
import { Copyable } from '../../parts/copy-button.js';
import { Fact } from '../../parts/facts.js';
import { ErrorState, LoadingState } from '../../parts/states.js';
import { Time } from '../../parts/time.js';
import { useAnswer } from '../../parts/use-answer.js';
import { TIMELINE_SCOPES, type Timeline } from '../payment.js';
import { PendingFacts } from '../pending.js';
import { Resolution } from '../resolution.js';
import type { ResolutionResult } from '../resolution-note.js';
import { TimelineList } from '../timeline.js';
import type { Refund } from './refund.js';
import { readRefunds } from './use-refunds.js';

interface Properties {
  readonly access: Access;
  readonly refund: Refund;
  /** While a person decides, the shown refund must not change. */
  readonly isDeciding: boolean;
  decide(isDeciding: boolean): void;
  ended(result: ResolutionResult): void;
}

/** All that is known of one refund, as of a payment: its facts, its events, its next step, and an operator's decision. */
export function RefundDetails({ access: { http, may }, refund, isDeciding, decide, ended }: Properties) {
  const key = refund.idempotencyKey;
  const path = `api/payments/${encodeURIComponent(key)}/timeline`;
  // The record is another object after each look, and while it is under way its next step changes with the time.
  const seesTimeline = may(...TIMELINE_SCOPES);
  const timeline = useAnswer(
    async (signal) => (seesTimeline ? (await http.ask<Timeline>(path, { signal })).body : undefined),
    [http, refund],
  );
  const life = timeline.answer;
  const isForOperator = refund.state === 'PROCESSING' && may('operations');

  async function readAgain(): Promise<Refund> {
    const refunds = await readRefunds(http, refund.refund.payment);
    return refunds.find(({ idempotencyKey }) => idempotencyKey === key) ?? refund;
  }

  return (
    <div class="refund-details">
      <dl class="facts">
        <Fact name="Key">
          <Copyable text={key} what="the key of the refund" />
        </Fact>
        {refund.transactionId !== null && (
          <Fact name="Transaction">
            <Copyable text={refund.transactionId} what="the transaction id of the refund" />
          </Fact>
        )}
        {refund.processorId !== undefined && (
          <Fact name="At the processor">
            <Copyable text={refund.processorId} what="the processor’s own id of the refund" />
          </Fact>
        )}
        <Fact name="Claimed">
          <Time at={refund.claimedAt} />
        </Fact>
        <PendingFacts payment={refund} life={life} />
        <Fact name="Settled">
          <Time at={refund.settledAt} />
        </Fact>
        <Fact name="Executions">{refund.executions}</Fact>
        {refund.resolution !== null && (
          <Fact name="Resolution">
            <bdi>{refund.resolution}</bdi>
          </Fact>
        )}
      </dl>
      {timeline.problem && <ErrorState sentence={timeline.problem} />}
      {seesTimeline && !life && !timeline.problem && <LoadingState what="the timeline" />}
      {life && <TimelineList life={life} state={refund.state} of="refund" />}
      {(isForOperator || isDeciding) && (
        <Resolution
          http={http}
          seen={{ payment: refund, etag: undefined }}
          readAgain={readAgain}
          next={life?.next}
          decide={decide}
          ended={ended}
        />
      )}
    </div>
  );
}
