import { dayAfter, isDay, problemOfColumns, todayUtc } from '@idempay/statements';
import type { ViewProperties } from '../navigation/route.js';
import { hashOf, navigate } from '../navigation/route.js';
import { countText } from '../parts/numbers.js';
import { ErrorState } from '../parts/states.js';
import { FileDrop } from './file-drop.js';
import { ReconciliationResult } from './reconciliation-result.js';
import { StatementReading } from './statement-reading.js';
import { useReconciliation } from './use-reconciliation.js';
import './reconciliation.css';

/** Compares our payments of a day with the statement of the company that moved the money. */
export default function ReconciliationView({ http, session, route }: ViewProperties) {
  const asked = route.query.get('day') ?? '';
  const day = isDay(asked) ? asked : dayAfter(todayUtc(), -1);
  const processor = route.query.get('processor') ?? session.processor.name;
  const reconciliation = useReconciliation(http);
  const { chosen, compared, problem, progress } = reconciliation;
  const columnProblem = chosen && problemOfColumns(chosen.reading.columns, chosen.reading.currency);

  const change = (changes: { day?: string; processor?: string }) => {
    // An empty processor is one that was chosen: all of them.
    const { day: newDay, processor: newProcessor } = { day, processor, ...changes };
    const query = new URLSearchParams({ day: newDay, processor: newProcessor });
    navigate(`${hashOf('reconciliation')}?${query}`, { replace: true });
  };

  return (
    <div class="reconciliation">
      <div class="view-head">
        <h1>Reconciliation</h1>
      </div>
      <p class="muted">
        Compares the payments that we settled on a day with the statement of the processor. The statement is read in
        this tab and is sent nowhere.
      </p>
      <form
        class="panel choices"
        onSubmit={(event) => {
          event.preventDefault();
          reconciliation.compare(day, processor);
        }}
      >
        <div class="fields">
          <div>
            <label for="day">Day (UTC)</label>
            <input
              id="day"
              type="date"
              value={day}
              max={todayUtc()}
              onChange={({ currentTarget: { value } }) => isDay(value) && change({ day: value })}
            />
          </div>
          <div>
            <label for="processor">Processor</label>
            <input
              id="processor"
              autocomplete="off"
              spellcheck={false}
              placeholder="all of them"
              value={processor}
              onChange={(event) => change({ processor: event.currentTarget.value.trim() })}
            />
          </div>
        </div>
        {day >= todayUtc() && <p class="note warn">This day is not over: payments may still be settled on it.</p>}
        <FileDrop file={chosen?.file} take={reconciliation.choose} />
        {chosen && <StatementReading chosen={chosen} assign={reconciliation.assign} choose={reconciliation.choose} />}
        {problem && <ErrorState sentence={problem} />}
        <div class="actions">
          <p class={columnProblem ? 'problem' : 'muted'} role="status">
            {progress
              ? `${countText(progress.rows)} lines of the statement and ${countText(progress.payments)} payments read`
              : columnProblem}
          </p>
          {progress ? (
            <button type="button" onClick={reconciliation.cancel}>
              Cancel
            </button>
          ) : (
            <button type="submit" class="primary" disabled={!chosen || columnProblem !== undefined}>
              Compare
            </button>
          )}
        </div>
      </form>
      {compared && <ReconciliationResult compared={compared} />}
    </div>
  );
}
