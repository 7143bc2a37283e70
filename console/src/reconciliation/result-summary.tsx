import { type ComparisonResult, GROUPS, type Group, shownGroups, totalTexts } from '@idempay/statements';
import { Money } from '../parts/money.js';
import { countText } from '../parts/numbers.js';
import { Table } from '../parts/table.js';

export function ResultSummary({ groups }: Pick<ComparisonResult, 'groups'>) {
  const rows = shownGroups(groups).map((group) => ({ group, ...GROUPS[group] }));
  return (
    <div class="panel summary">
      <Table
        caption="Counts, and totals of what was completed"
        columns={[
          {
            title: 'Outcome',
            cell: ({ title, hint }) => (
              <>
                {title} {hint && <span class="muted">({hint})</span>}
              </>
            ),
          },
          { title: 'Count', isNumber: true, cell: ({ group }) => countText(groups[group].count) },
          {
            title: 'Total in Idempay',
            isNumber: true,
            cell: ({ group }) => <Sum group={groups[group]} side="ours" />,
          },
          {
            title: 'Total at the processor',
            isNumber: true,
            cell: ({ group }) => <Sum group={groups[group]} side="theirs" />,
          },
        ]}
        rows={rows}
        keyOf={({ name }) => name}
      />
    </div>
  );
}

function Sum({ group, side }: { group: Group; side: 'ours' | 'theirs' }) {
  const totals = group[side];
  if (totals.size === 0) return <span class="muted">–</span>;
  return (
    <>
      {totalTexts(totals).map(({ currency, amount }) => (
        <div key={currency}>
          <Money amount={amount} currency={currency} />
        </div>
      ))}
    </>
  );
}
