import { agreementOf, LISTED_KINDS } from '@idempay/statements';
import { Badge } from '../parts/badge.js';
import { Download } from '../parts/download.js';
import { countText } from '../parts/numbers.js';
import { DifferenceList } from './difference-list.js';
import { ResultSummary } from './result-summary.js';
import type { Compared } from './use-reconciliation.js';

/** The result in numbers, and then each difference. */
export function ReconciliationResult({ compared }: { compared: Compared }) {
  const { day, processor, statement, result } = compared;
  const { groups, problems, rows, payments, refunds, refundsFoundByPayment } = result;
  const { differences, isAgreed, isOtherDay, namesNoOrder } = agreementOf(result);
  return (
    <section class="result" aria-label="Result">
      <div class="view-head" role="status">
        <h2>
          {differences === 0 ? (
            <Badge tone={isAgreed ? 'good' : 'warn'}>{agreedText(isAgreed, isOtherDay)}</Badge>
          ) : (
            <Badge tone="bad">{differences === 1 ? 'one difference' : `${countText(differences)} differences`}</Badge>
          )}{' '}
          {day}, <bdi>{processor === '' ? 'all processors' : processor}</bdi>
        </h2>
        {LISTED_KINDS.some((kind) => groups[kind].count > 0) && (
          <Download
            file={compared.differences}
            name={`differences-${day}.csv`}
            label="Download the differences (CSV)"
          />
        )}
      </div>
      {namesNoOrder && (
        <p class="note warn">
          No line of the statement names an order of this day. Check the columns, the day and the processor first.
        </p>
      )}
      <p class="muted">
        {countText(payments)} payments{refunds > 0 && ` and ${countText(refunds)} refunds`} settled in Idempay,{' '}
        {countText(rows)} lines in <bdi>{statement}</bdi>.
      </p>
      {refundsFoundByPayment > 0 && (
        <p class="muted">
          Refunds that were found by their payment and amount, because their lines name no refund:{' '}
          {countText(refundsFoundByPayment)}.
        </p>
      )}
      {isOtherDay && (
        <p class="note warn">
          Nothing of the statement was settled on this day, and{' '}
          {countText(groups.otherDay.count + groups.refundOtherDay.count)} of its payments and refunds on a day next to
          it. Is it the statement of another day?
        </p>
      )}
      {payments + refunds === 0 && (
        <p class="note warn">
          No payment was settled on this day{processor === '' ? '' : ' at this processor'}. Is it the right{' '}
          {processor === '' ? 'day' : 'day, and the right processor'}?
        </p>
      )}
      {problems.count > 0 && <Problems problems={problems} />}
      <ResultSummary groups={groups} />
      {LISTED_KINDS.map(
        (kind) =>
          groups[kind].count > 0 && (
            <DifferenceList key={kind} kind={kind} count={groups[kind].count} shown={result.shown[kind]} />
          ),
      )}
    </section>
  );
}

function agreedText(isAgreed: boolean, isOtherDay: boolean): string {
  if (isAgreed) return 'no differences';
  return isOtherDay ? 'a statement of another day?' : 'not every line could be read';
}

function Problems({ problems: { count, first } }: { problems: Compared['result']['problems'] }) {
  return (
    <section class="state error">
      <p>
        {count === 1 ? 'One line of the statement' : `${countText(count)} lines of the statement`} could not be read,
        and {count === 1 ? 'is' : 'are'} not in the comparison:
      </p>
      <ul class="problems">
        {first.map(({ line, problem }) => (
          <li key={line}>
            Line {countText(line)}: <bdi>{problem}</bdi>
          </li>
        ))}
      </ul>
      {count > first.length && <p class="muted">These are the first {first.length}.</p>}
    </section>
  );
}
