import { countText } from '../parts/numbers.js';
import { Table } from '../parts/table.js';
import type { LiveModel } from './model.js';

/** The charts as text: their latest values, and the payments of all their minutes. */
export function LatestValues({ model }: { model: LiveModel }) {
  const rows = model.charts.flatMap(({ definition, data, shown }) =>
    definition.series
      .map((series, line) => ({
        definition,
        series,
        value: data[line + 1]?.[model.lastIndex] ?? null,
        isShown: shown[line],
      }))
      .filter(({ isShown }) => isShown),
  );
  const totals = new Map<string, number>();
  for (const { payments } of model.kept) {
    for (const [outcome, count] of Object.entries(payments)) totals.set(outcome, (totals.get(outcome) ?? 0) + count);
  }
  return (
    <details class="panel latest">
      <summary>The same as tables</summary>
      <div class="tables">
        <Table
          caption="Latest values"
          columns={[
            { title: 'Chart', cell: ({ definition }) => definition.title },
            { title: 'Line', cell: ({ series }) => series.name },
            {
              title: 'Latest',
              isNumber: true,
              cell: ({ definition, value }) => (value === null ? '–' : definition.text(value)),
            },
          ]}
          rows={rows}
          keyOf={({ definition, series }) => `${definition.name} ${series.name}`}
        />
        <Table
          caption="Payments in the time shown"
          columns={[
            { title: 'Outcome', cell: ([outcome]) => outcome },
            { title: 'Answers', isNumber: true, cell: ([, count]) => countText(count) },
          ]}
          rows={[...totals].filter(([, count]) => count > 0)}
          keyOf={([outcome]) => outcome}
        />
      </div>
    </details>
  );
}
