import { useEffect, useRef, useState } from 'preact/hooks';
import type { ViewProperties } from '../navigation/route.js';
import { Badge } from '../parts/badge.js';
import { durationText } from '../parts/duration.js';
import { ErrorState, LoadingState } from '../parts/states.js';
import { Time } from '../parts/time.js';
import { Chart } from './chart.js';
import { type ConnectionState, LiveConnection } from './connection.js';
import { Day } from './day.js';
import { Figures } from './figures.js';
import { LatestValues } from './latest-values.js';
import { LiveModel } from './model.js';
import { Processes } from './processes.js';
import { Strips } from './strips.js';
import './live-view.css';

/** The window moves on also while nothing comes, so that a gap is seen growing. */
const MOVE_ON_MS = 1_000;

/** The last fifteen minutes of all processes, as they go on. */
export default function LiveView({ http, may }: ViewProperties) {
  const [shown] = useState(() => new LiveModel());
  const connection = useRef<LiveConnection | undefined>(undefined);
  const [state, setState] = useState<ConnectionState>({ name: 'connecting' });
  const [only, setOnly] = useState<string | undefined>(undefined);
  const [, setRound] = useState(0);
  const chosen = useRef<string | undefined>(undefined);
  chosen.current = only;

  useEffect(() => {
    const draw = () => {
      shown.show(chosen.current, performance.now());
      setRound((count) => count + 1);
    };
    const opened = new LiveConnection(http, {
      samples(samples) {
        shown.take(samples, performance.now());
        draw();
      },
      state: setState,
      since: () => shown.since,
    });
    connection.current = opened;
    const moving = setInterval(draw, MOVE_ON_MS);
    return () => {
      opened.end();
      clearInterval(moving);
    };
  }, [http, shown]);

  function choose(instance: string | undefined) {
    setOnly(instance);
    shown.show(instance, performance.now());
    setRound((count) => count + 1);
  }

  if (state.name === 'refused') return <ErrorState sentence={state.sentence} />;
  if (shown.latestAt === 0) {
    return state.name === 'lost' ? (
      <ErrorState
        sentence={`${state.sentence} It is tried again.`}
        action={{ label: 'Try now', run: () => connection.current?.tryNow() }}
      />
    ) : (
      <LoadingState what="the last minutes. The first sample comes within five seconds" />
    );
  }
  return (
    <div class="live">
      <div class="view-head">
        <h1>Live</h1>
        <Connection state={state} latestAt={shown.latestAt} tryNow={() => connection.current?.tryNow()} />
      </div>
      <div class={state.name === 'live' ? 'now' : 'now stale'}>
        <Figures samples={shown.current} mayList={may('operations') || may('payments:write')} />
      </div>
      <Processes model={shown} only={only} choose={choose} />
      <Strips covering={shown.covering} current={shown.current} />
      <div class="charts">
        {shown.charts.map(({ definition, data, shown: lines }) => (
          <Chart
            key={definition.name}
            title={definition.title}
            series={definition.series}
            data={data}
            shown={lines}
            latestIndex={shown.lastIndex}
            version={shown.version}
            text={definition.text}
            most={definition.most}
            steps={definition.steps}
            width={definition.width}
            group="live"
          />
        ))}
        {may('operations') && <Day http={http} />}
      </div>
      <LatestValues model={shown} />
    </div>
  );
}

function Connection({ state, latestAt, tryNow }: { state: ConnectionState; latestAt: number; tryNow(): void }) {
  if (state.name !== 'lost') {
    return (
      <p class="connection" role="status">
        <Badge tone={state.name === 'live' ? 'good' : 'plain'}>{state.name === 'live' ? 'live' : 'connecting'}</Badge>
      </p>
    );
  }
  const waitMs = state.untilMs - performance.now();
  return (
    <div class="connection">
      <p role="status">
        <Badge tone="bad">not live</Badge> {state.sentence} Shown is what was there at <Time at={latestAt} clockOnly />.
      </p>
      <span class="muted">{waitMs > 500 ? `next attempt in ${durationText(waitMs)}` : 'trying'}</span>
      <button type="button" onClick={tryNow}>
        Try now
      </button>
    </div>
  );
}
