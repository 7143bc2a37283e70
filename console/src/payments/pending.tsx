import { Badge } from '../parts/badge.js';
import { Fact } from '../parts/facts.js';
import { Time } from '../parts/time.js';
import { Countdown } from './countdown.js';
import type { Payment, Timeline } from './payment.js';
import { isRefund } from './refunds/refund.js';

/** The expected end of a payment that waits, in a list. Any other payment shows nothing. */
export function PendingInShort({ payment: { pending } }: { payment: Payment }) {
  if (!pending) return null;
  return (
    <div class="muted note">
      {isPast(pending.until) ? <PastItsEnd /> : 'waiting until'} <Time at={pending.until} />
    </div>
  );
}

/** The waiting in full, as lines of `<dl class="facts">`. `life` is undefined if the timeline could not be read. */
export function PendingFacts({ payment, life }: { payment: Payment; life: Timeline | undefined }) {
  const { pending } = payment;
  if (!pending) return null;
  const since = life?.events.find(({ event, at }) => event === 'pending' && at !== null)?.at;
  return (
    <>
      <Fact name="Waiting for">{isRefund(payment) ? 'the processor' : 'its payer, or a bank'}</Fact>
      {since !== undefined && (
        <Fact name="Waiting since">
          <Time at={since} />
        </Fact>
      )}
      <Fact name="Expected end">
        <Countdown to={pending.until} /> {isPast(pending.until) && <PastItsEnd />}
      </Fact>
    </>
  );
}

const PastItsEnd = () => <Badge tone="warn">past its expected end</Badge>;

const isPast = (until: string) => Date.parse(until) <= Date.now();

/** The effect of a cancellation on a payment that was under way. */
export function EndingFact({ payment }: { payment: Payment }) {
  const sentence = endingSentenceOf(payment);
  return sentence === undefined ? null : <Fact name="Ending">{sentence}</Fact>;
}

function endingSentenceOf({ ending, state, reference }: Payment): string | undefined {
  if (ending === undefined) return undefined;
  const scope = reference === null ? '' : ending === 'order' ? ' with its order' : ', only this attempt';
  switch (state) {
    case 'PROCESSING':
      return `A cancellation ends it${scope}. The processor is asked again until it answers, and no charge is sent.`;
    case 'COMPLETED':
      return 'A cancellation was to end it, and it was paid before.';
    default:
      return `A cancellation ended it${scope}.`;
  }
}
