import { hashOf } from '../navigation/route.js';
import { Badge, type Tone } from '../parts/badge.js';
import { CopyButton } from '../parts/copy-button.js';
import { durationText } from '../parts/duration.js';
import { commandOf, type Outcome } from './call.js';
import type { Exchange, Step } from './steps.js';

interface Properties {
  readonly step: Step;
  readonly hasCredential: boolean;
  readonly showsTimeline: boolean;
}

export function ShownStep({ step: { number, title, exchange, key, note }, hasCredential, showsTimeline }: Properties) {
  return (
    <li class="panel">
      <header>
        <h2>
          {number}. {title}
        </h2>
        {key !== undefined && showsTimeline && <a href={hashOf('payment', key)}>Timeline of the payment</a>}
      </header>
      {note !== undefined && <p class="note">{note}</p>}
      {exchange && <ShownExchange exchange={exchange} hasCredential={hasCredential} />}
    </li>
  );
}

function ShownExchange({
  exchange: { calls, outcomes },
  hasCredential,
}: {
  exchange: Exchange;
  hasCredential: boolean;
}) {
  const command = commandOf(calls, hasCredential);
  return (
    <div class="exchange">
      <div class="command">
        <pre>{command}</pre>
        <CopyButton text={command} what="the command" />
      </div>
      {outcomes.length === 0 && (
        <p class="muted" role="status">
          Waiting for the answer…
        </p>
      )}
      <div class="answers">
        {outcomes.map((outcome, place) => (
          <Answer key={place} outcome={outcome} />
        ))}
      </div>
    </div>
  );
}

function Answer({ outcome }: { outcome: Outcome }) {
  if ('problem' in outcome) return <p class="problem">{outcome.problem}</p>;
  const { status, reason, headers, body, tookMs } = outcome;
  return (
    <div class="answer">
      <p>
        <Badge tone={toneOf(status)}>
          {status} {reason}
        </Badge>{' '}
        <span class="muted">after {durationText(tookMs)}</span>
      </p>
      <dl>
        {headers.map(([name, value]) => (
          <div key={name} class={name === 'idempotent-replayed' || name === 'retry-after' ? 'marked' : undefined}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
      <pre>
        <bdi>{body}</bdi>
      </pre>
    </div>
  );
}

function toneOf(status: number): Tone {
  if (status < 300) return 'good';
  return status === 409 ? 'warn' : 'bad';
}
