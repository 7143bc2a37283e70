import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { hashOf } from '../navigation/route.js';
import { Badge, type Tone } from '../parts/badge.js';
import { durationText } from '../parts/duration.js';
import { Fact } from '../parts/facts.js';
import { countText } from '../parts/numbers.js';
import { ErrorState, LoadingState } from '../parts/states.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import { useAnswer } from '../parts/use-answer.js';
import {
  type Change,
  listSetAside,
  MOST_COUNTED,
  type SetAside,
  type State,
  stateOf,
  type Webhook,
  waitedMsOf,
} from './webhook.js';

const TONES: Readonly<Record<State, Tone>> = {
  stopped: 'bad',
  'not served': 'closed',
  'stands still': 'bad',
  behind: 'warn',
  delivering: 'good',
};
/** More are shown on demand. */
const FIRST_SHOWN = 20;

interface Properties {
  readonly http: Http;
  readonly webhook: Webhook;
  /** When the service said so. */
  readonly at: number;
  change(change: Change): void;
}

export function Endpoint({ http, webhook, at, change }: Properties) {
  const { name, receiver, client, deliveredUntil, setAside } = webhook;
  const state = stateOf(webhook, at);
  const reason = reasonOf(webhook, state);
  const isStopped = state === 'stopped';
  return (
    <section class="panel" aria-label={`Endpoint ${name}`}>
      <header>
        <h2>
          <bdi>{name}</bdi> <Badge tone={TONES[state]}>{state}</Badge>
        </h2>
        <div class="actions">
          {setAside > 0 && (
            <button type="button" onClick={() => change({ verb: 'resend' })}>
              Resend all…
            </button>
          )}
          <button type="button" onClick={() => change({ verb: isStopped ? 'start' : 'stop' })}>
            {isStopped ? 'Start…' : 'Stop…'}
          </button>
        </div>
      </header>
      {reason !== undefined && <p class="reason">{reason}</p>}
      <dl class="facts">
        <Fact name="Receiver">{receiver === null ? <span class="muted">–</span> : <bdi>{receiver}</bdi>}</Fact>
        <Fact name="Settlements">{client === null ? 'of all clients' : <bdi>of {client}</bdi>}</Fact>
        <Fact name="Behind">{behindText(webhook, at)}</Fact>
        <Fact name="Delivered until">
          <Time at={deliveredUntil} />
        </Fact>
        <Fact name="Set aside">{setAside === 0 ? 'none' : <Badge tone="warn">{countText(setAside)}</Badge>}</Fact>
      </dl>
      {setAside > 0 && <SetAsideList http={http} webhook={webhook} change={change} />}
    </section>
  );
}

function reasonOf({ stoppedBy }: Webhook, state: State): string | undefined {
  switch (state) {
    case 'stopped':
      return stoppedBy === 'receiver'
        ? 'Its receiver answered 410: it wants nothing more. If it is wanted again, start it; it goes on where it was.'
        : 'An operator stopped it. Once started, it goes on where it was.';
    case 'not served':
      return 'It is not in the file of endpoints of the process that answered. If it comes back, it goes on where it was.';
    case 'stands still':
      return '1,000 settlements are set aside, so it gets no others. Repair the receiver, then resend them.';
    case 'behind':
      return 'The oldest settlement was refused so far, or nobody answered. It is tried again at least every five minutes.';
    case 'delivering':
      return undefined;
  }
}

function behindText(webhook: Webhook, at: number): string {
  const { behind } = webhook;
  if (behind === null) return 'not counted';
  if (behind === 0) return 'by none';
  const waited = durationText(waitedMsOf(webhook, at));
  if (behind === 1) return `by one settlement, for ${waited}`;
  return `by ${countText(behind)} settlements${behind >= MOST_COUNTED ? ' or more' : ''}, the oldest of them for ${waited}`;
}

/** Each listing of the endpoint reads the list again, so that the last cause and the next try are never old. */
function SetAsideList({ http, webhook, change }: Pick<Properties, 'http' | 'webhook' | 'change'>) {
  const { name } = webhook;
  const { answer, problem, again } = useAnswer((signal) => listSetAside(http, name, signal), [http, webhook]);
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? answer : answer?.slice(0, FIRST_SHOWN);
  return (
    <>
      {problem && <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />}
      {!answer && !problem && <LoadingState what="what is set aside" />}
      {shown && shown.length > 0 && (
        <div class="set-aside">
          <Table
            caption={`Settlements that ${name} refused again and again, the longest first`}
            columns={columnsOf(change)}
            rows={shown}
            keyOf={({ idempotencyKey }) => idempotencyKey}
          />
        </div>
      )}
      {answer && shown && answer.length > shown.length && (
        <div class="more">
          <button type="button" onClick={() => setWhole(true)}>
            Show all {countText(answer.length)}
          </button>
        </div>
      )}
    </>
  );
}

const columnsOf = (change: Properties['change']): readonly Column<SetAside>[] => [
  {
    title: 'Set aside',
    cell: ({ idempotencyKey }) => (
      <a class="key" href={hashOf('payment', idempotencyKey)}>
        <code>{idempotencyKey}</code>
      </a>
    ),
  },
  { title: 'Refused last', cell: ({ cause }) => <bdi>{cause}</bdi> },
  { title: 'Since', cell: ({ setAsideAt }) => <Time at={setAsideAt} /> },
  {
    title: 'Next try',
    cell: ({ nextTryAt }) => (nextTryAt === null ? <span class="muted">only by hand</span> : <Time at={nextTryAt} />),
  },
  {
    title: 'Change',
    cell: ({ idempotencyKey: key }) => (
      <button type="button" aria-label={`Resend ${key}…`} onClick={() => change({ verb: 'resend', key })}>
        Resend…
      </button>
    ),
  },
];
