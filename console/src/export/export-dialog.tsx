import { dayAfter, lastDayOf, todayUtc } from '@idempay/statements';
import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { Dialog } from '../parts/dialog.js';
import { Download } from '../parts/download.js';
import { countText } from '../parts/numbers.js';
import { ErrorState } from '../parts/states.js';
import { useWork } from '../parts/use-work.js';
import { type Days, type ExportedFile, type ExportFormat, type ExportKind, exportPayments } from './export-payments.js';

const NOUNS: Readonly<Record<ExportKind, { readonly one: string; readonly many: string }>> = {
  payment: { one: 'One payment', many: 'payments' },
  refund: { one: 'One refund', many: 'refunds' },
  all: { one: 'One payment or refund', many: 'payments and refunds' },
};
const MONTH_LENGTH = '2026-11'.length;

/** Every payment, or refund, that was settled in a month, or on other days in a row, as a file. */
export function ExportDialog({ http, close }: { http: Http; close(): void }) {
  const [days, setDays] = useState<Days>(lastMonth);
  const [kind, setKind] = useState<ExportKind>('payment');
  const [format, setFormat] = useState<ExportFormat>('csv');
  const [progress, setProgress] = useState(0);
  const [exported, setExported] = useState<ExportedFile>();
  const { problem, isWorking, run, cancel } = useWork(false);

  /** A file of other days must not stand below the ones that are chosen. */
  function choose(changes: Partial<Days>) {
    cancel();
    setExported(undefined);
    setDays({ ...days, ...changes });
  }

  function submit(event: SubmitEvent) {
    event.preventDefault();
    setProgress(0);
    setExported(undefined);
    run((signal) => exportPayments(http, days, { kind, format }, setProgress, signal), setExported);
  }

  const day = (name: keyof Days, label: string) => (
    <div>
      <label for={`export-${name}`}>{label}</label>
      <input
        id={`export-${name}`}
        type="date"
        required
        value={days[name]}
        max={todayUtc()}
        onChange={({ currentTarget: { value } }) => choose({ [name]: value })}
      />
    </div>
  );

  return (
    <Dialog title="Export payments" close={close}>
      <form onSubmit={submit} class="confirmation">
        <p class="muted">
          Every payment, or every refund, that was settled on these days (UTC), in that order, as a file for a
          spreadsheet or a program.
        </p>
        <div class="actions start">
          <button type="button" onClick={() => choose(lastMonth())}>
            Last month
          </button>
          <button type="button" onClick={() => choose({ ...monthOf(todayUtc()), lastDay: todayUtc() })}>
            This month
          </button>
          <button
            type="button"
            onClick={() => choose({ day: dayAfter(todayUtc(), -1), lastDay: dayAfter(todayUtc(), -1) })}
          >
            Yesterday
          </button>
        </div>
        <div class="fields">
          {day('day', 'First day')}
          {day('lastDay', 'Last day, included')}
          <div>
            <label for="export-kind">Kind</label>
            <select
              id="export-kind"
              value={kind}
              onChange={({ currentTarget: { value } }) => {
                choose({});
                setKind(value as ExportKind);
              }}
            >
              <option value="payment">payments</option>
              <option value="refund">refunds</option>
              <option value="all">payments and refunds</option>
            </select>
          </div>
          <div>
            <label for="export-format">File</label>
            <select
              id="export-format"
              value={format}
              onChange={({ currentTarget: { value } }) => {
                choose({});
                setFormat(value as ExportFormat);
              }}
            >
              <option value="csv">CSV, for a spreadsheet</option>
              <option value="ndjson">JSON, one object on a line</option>
            </select>
          </div>
        </div>
        {days.lastDay >= todayUtc() && (
          <p class="note warn">The last day is not over: payments may still be settled on it.</p>
        )}
        {problem && <ErrorState sentence={problem} />}
        <div class="actions">
          <p class="muted" role="status">
            {isWorking && `${countText(progress)} ${NOUNS[kind].many} read`}
            {exported && (exported.count === 1 ? NOUNS[kind].one : `${countText(exported.count)} ${NOUNS[kind].many}`)}
          </p>
          {isWorking && (
            <button type="button" onClick={cancel}>
              Cancel
            </button>
          )}
          {exported && <Download {...exported} label="Download the file" />}
          {!isWorking && !exported && (
            <button type="submit" class="primary">
              Export
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function monthOf(day: string): Days {
  const month = day.slice(0, MONTH_LENGTH);
  return { day: `${month}-01`, lastDay: lastDayOf(month) ?? day };
}

/** The days of the month before this one. */
const lastMonth = (): Days => monthOf(dayAfter(monthOf(todayUtc()).day, -1));
