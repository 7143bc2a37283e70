import { durationText } from '../parts/duration.js';
import { countText, roughText, shareText } from '../parts/numbers.js';
import { hashOfFilters } from '../payments/filters.js';
import { allPayments, hitRatio, rateOf } from './charts.js';
import { added, quantile } from './quantiles.js';
import type { Sample } from './sample.js';

/** The figures that an operator looks at first. `samples`: the newest sample of each process. */
export function Figures({ samples, mayList }: { samples: readonly Sample[]; mayList: boolean }) {
  const payments = rateOf(samples, allPayments);
  const median = quantile(0.5, added(samples.map(({ latency }) => latency)));
  const slowest = quantile(0.99, added(samples.map(({ latency }) => latency)));
  const backlogs = samples.map(({ backlog }) => backlog).filter((backlog) => backlog !== null);
  const waiting = backlogs.length === 0 ? null : Math.max(...backlogs.map((backlog) => backlog.payments));
  const oldestMs = Math.max(0, ...backlogs.map((backlog) => backlog.oldestMs));
  const underWay = samples.reduce((sum, { attempts }) => sum + attempts.request + attempts.recovery, 0);
  const waiters = samples.reduce((sum, one) => sum + one.waiters, 0);
  const hits = hitRatio(samples);
  return (
    <dl class="figures">
      <Figure name="Payments" value={payments === null ? null : roughText(payments)} unit="per second" />
      <Figure name="Median latency" value={median === null ? null : roughText(median * 1_000)} unit="ms" />
      <Figure name="99th percentile" value={slowest === null ? null : roughText(slowest * 1_000)} unit="ms" />
      <Figure
        name="Under way"
        value={samples.length === 0 ? null : countText(underWay)}
        unit={`${countText(waiters)} waiting`}
      />
      <Figure
        name="Awaiting recovery"
        value={waiting === null ? null : countText(waiting)}
        unit={waiting ? `oldest ${durationText(oldestMs)}` : 'claims'}
        isBad={waiting !== null && waiting > 0}
        {...(mayList && { href: hashOfFilters({ state: 'PROCESSING' }) })}
      />
      <Figure name="Cache hits" value={hits === null ? null : shareText(hits)} unit="of reads by id" />
    </dl>
  );
}

function Figure({
  name,
  value,
  unit,
  isBad = false,
  href,
}: {
  name: string;
  value: string | null;
  unit: string;
  isBad?: boolean;
  /** A link to the list of the counted items. */
  href?: string;
}) {
  return (
    <div class={isBad ? 'figure bad' : 'figure'}>
      <dt>{href === undefined ? name : <a href={href}>{name}</a>}</dt>
      <dd>
        <span class="value">{value ?? '–'}</span> <span class="muted">{value === null ? 'nothing now' : unit}</span>
      </dd>
    </div>
  );
}
