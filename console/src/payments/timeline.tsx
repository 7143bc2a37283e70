import type { Tone } from '../parts/badge.js';
import { durationText } from '../parts/duration.js';
import { countText } from '../parts/numbers.js';
import { Time } from '../parts/time.js';
import { Countdown } from './countdown.js';
import type { Timeline as Life, Payment, TimelineEvent } from './payment.js';

/** Shorter than this, one thing follows the other at once. */
const GAP_MS = 1_000;
const SHORT_ID = 8;

/** Each event, and what it means for the eye. */
const EVENTS: ReadonlyMap<string, { readonly title: string; readonly tone?: Tone }> = new Map([
  ['issued', { title: 'Key issued' }],
  ['claimed', { title: 'Claimed', tone: 'active' }],
  ['charged', { title: 'Charged', tone: 'active' }],
  ['not sent', { title: 'Charge not sent', tone: 'warn' }],
  ['unknown', { title: 'Outcome unknown', tone: 'warn' }],
  ['pending', { title: 'Waiting for the payer or a bank', tone: 'active' }],
  ['looked up', { title: 'Looked up at the processor' }],
  ['taken over', { title: 'Taken over', tone: 'active' }],
  ['settled', { title: 'Settled', tone: 'good' }],
  ['resolved', { title: 'Resolved by an operator', tone: 'good' }],
  ['cancelled', { title: 'Closed', tone: 'closed' }],
]);

/** The words that differ for a refund. */
const REFUND_EVENTS: typeof EVENTS = new Map([
  ...EVENTS,
  ['refunded', { title: 'Given back', tone: 'active' }],
  ['not sent', { title: 'Refund not sent', tone: 'warn' }],
  ['pending', { title: 'Waiting for the processor', tone: 'active' }],
]);

/** The life of a payment, or of a refund, from top to bottom, with the next step at its end. */
export function TimelineList({ life, state, of = 'payment' }: Properties) {
  const { events, omitted, next } = life;
  const titles = of === 'refund' ? REFUND_EVENTS : EVENTS;
  return (
    <>
      {omitted > 0 && (
        <p class="omitted muted">
          {omitted === 1 ? 'One event' : `${countText(omitted)} events`} between the first and the last ones{' '}
          {omitted === 1 ? 'is' : 'are'} not kept.
        </p>
      )}
      <ol class="timeline" aria-label="What happened, in order">
        {events.map((event, index) => (
          <Event key={index} event={event} titles={titles} after={lastTimeBefore(events, index)} state={state} />
        ))}
        <li class="next">
          <span class="dot" />
          <div>
            <strong>Next</strong>
            <p>
              <bdi>{localized(next.text)}</bdi>
            </p>
            {next.at !== null && <Countdown to={next.at} />}
          </div>
        </li>
      </ol>
    </>
  );
}

interface Properties {
  readonly life: Life;
  readonly state: Payment['state'];
  readonly of?: 'payment' | 'refund';
}

function Event({
  event: { at, event, execution = null, process, by = null, detail },
  titles,
  after,
  state,
}: {
  event: TimelineEvent;
  titles: typeof EVENTS;
  after: string | undefined;
  state: Payment['state'];
}) {
  const { title, tone = 'plain' } = titles.get(event) ?? { title: event };
  const gapMs = at && after ? Date.parse(at) - Date.parse(after) : 0;
  return (
    <>
      {gapMs >= GAP_MS && <li class="gap muted">{durationText(gapMs)} later</li>}
      <li class={tone === 'good' && state === 'DECLINED' ? 'bad' : tone}>
        <span class="dot" />
        <div>
          <div class="event-head">
            <strong>
              <bdi>{title}</bdi>
            </strong>
            {execution !== null && <span class="muted">execution {execution}</span>}
            {process !== null && (
              <span class="muted">
                by <code title={`Process ${process}`}>{process.slice(0, SHORT_ID)}</code>
              </span>
            )}
            {by !== null && (
              <span class="muted">
                for <bdi>{by}</bdi>
              </span>
            )}
            <span class="event-time">{at === null ? <span class="muted">in between</span> : <Time at={at} />}</span>
          </div>
          {detail !== null && (
            <p class="detail">
              <bdi>{event === 'pending' ? localized(detail) : detail}</bdi>
            </p>
          )}
        </div>
      </li>
    </>
  );
}

const MOMENT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** The moments in a sentence of the service as the rest of the page shows them. */
function localized(text: string) {
  return text.split(MOMENT).map((part, index) => (index % 2 === 1 ? <Time key={index} at={part} /> : part));
}

/** The time of the nearest event before that has one: some are kept without. */
function lastTimeBefore(events: readonly TimelineEvent[], index: number): string | undefined {
  return events.slice(0, index).findLast(({ at }) => at !== null)?.at ?? undefined;
}
