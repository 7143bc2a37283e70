import { Badge } from '../parts/badge.js';
import { durationText } from '../parts/duration.js';
import { roughText } from '../parts/numbers.js';
import { allPayments, rateOf } from './charts.js';
import type { LiveModel } from './model.js';

interface Properties {
  readonly model: LiveModel;
  readonly only: string | undefined;
  choose(instance: string | undefined): void;
}

/** The list of processes. One that is chosen is shown alone. */
export function Processes({ model, only, choose }: Properties) {
  const processes = model.present;
  return (
    <ul class="processes" aria-label="Processes">
      {processes.length > 1 && (
        <li>
          <button type="button" aria-pressed={only === undefined} onClick={() => choose(undefined)}>
            All {processes.length} processes
          </button>
        </li>
      )}
      {processes.map((one) => {
        const { instance, latest } = one;
        const { host, pid, version, startedAt } = latest.process;
        const silent = model.isSilent(one);
        return (
          <li key={instance}>
            <button
              type="button"
              aria-pressed={only === instance}
              title={`Instance ${instance}`}
              onClick={() => choose(only === instance ? undefined : instance)}
            >
              <bdi>
                {host}:{pid}
              </bdi>{' '}
              <span class="muted">
                {version} · up {durationText(latest.at - startedAt)}
              </span>{' '}
              {silent ? (
                <Badge tone="warn">silent for {durationText(model.now - latest.at)}</Badge>
              ) : (
                <span class="muted">· {roughText(rateOf([latest], allPayments) ?? 0)}/s</span>
              )}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
