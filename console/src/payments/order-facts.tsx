import { hashOf } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Fact } from '../parts/facts.js';
import type { Asked } from '../parts/use-answer.js';
import { hashOfFilters } from './filters.js';
import type { Payment } from './payment.js';

/** The order that a payment is of, and the other attempts at it. */
export function OrderFacts({
  payment: { reference, attempt },
  others,
}: {
  payment: Payment;
  others: Asked<readonly Payment[]>;
}) {
  if (reference === null) return null;
  return (
    <>
      <Fact name="Order">
        <a href={hashOfFilters({ reference })}>
          <bdi>{reference}</bdi>
        </a>
      </Fact>
      <Fact name="Attempt">{attempt}</Fact>
      <Fact name="Other attempts">
        <Others asked={others} own={attempt} />
      </Fact>
    </>
  );
}

function Others({ asked: { answer, problem }, own }: { asked: Asked<readonly Payment[]>; own: number | null }) {
  // An older answer may lack the attempts that were made since.
  if (problem !== undefined || !answer) return <span class="muted">{problem ?? 'Loading…'}</span>;
  if (answer.length === 0) return <span class="muted">none</span>;
  const numbers = [own, ...answer.map(({ attempt }) => attempt)];
  return (
    <>
      <ul class="attempts">
        {answer.map(({ idempotencyKey, attempt, state }) => (
          <li key={idempotencyKey}>
            <a href={hashOf('payment', idempotencyKey)}>attempt {attempt}</a> <StatusBadge status={state} />
          </li>
        ))}
      </ul>
      {new Set(numbers).size < numbers.length && (
        <p class="muted">Several clients have an order of this number: these are the attempts of all of them.</p>
      )}
    </>
  );
}
