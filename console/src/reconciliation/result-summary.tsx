import { Money } from '../parts/money.js';
import { countText } from '../parts/numbers.js';
import { Table } from '../parts/table.js';
import { type Decimals, totalTexts } from './amounts.js';
import type { ComparisonResult, Group } from './comparison.js';

const ROWS: readonly {
  readonly name: keyof ComparisonResult['groups'];
  readonly title: string;
  readonly hint?: string;
}[] = [
  { name: 'matched', title: 'The same on both sides' },
  { name: 'otherDay', title: 'The same, settled with us on a day beside it' },
  { name: 'unlisted', title: 'Declined with us, not on the statement', hint: 'no money moved' },
  { name: 'different', title: 'Different' },
  { name: 'theirs', title: 'Only with the processor' },
  { name: 'ours', title: 'Only with us' },
  { name: 'duplicate', title: 'Twice on the statement' },
];
const ALWAYS_SHOWN = ['matched', 'different', 'theirs', 'ours'];

export function ResultSummary({ groups, decimals }: ComparisonResult) {
  const rows = ROWS.filter(({ name }) => groups[name].count > 0 || ALWAYS_SHOWN.includes(name));
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
          { title: 'Payments', isNumber: true, cell: ({ name }) => countText(groups[name].count) },
          {
            title: 'Total with us',
            isNumber: true,
            cell: ({ name }) => <Sum group={groups[name]} side="ours" decimals={decimals} />,
          },
          {
            title: 'Total with the processor',
            isNumber: true,
            cell: ({ name }) => <Sum group={groups[name]} side="theirs" decimals={decimals} />,
          },
        ]}
        rows={rows}
        keyOf={({ name }) => name}
      />
    </div>
  );
}

function Sum({ group, side, decimals }: { group: Group; side: 'ours' | 'theirs'; decimals: Decimals }) {
  const totals = group[side];
  if (totals.size === 0) return <span class="muted">–</span>;
  return (
    <>
      {totalTexts(totals, decimals).map(({ currency, amount }) => (
        <div key={currency}>
          <Money amount={amount} currency={currency} />
        </div>
      ))}
    </>
  );
}
