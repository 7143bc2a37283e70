import { totalTexts } from '../../../src/statements/amounts.js';
import type { ComparisonResult, Group } from '../../../src/statements/comparison.js';
import { Money } from '../parts/money.js';
import { countText } from '../parts/numbers.js';
import { Table } from '../parts/table.js';

const ROWS: readonly {
  readonly name: keyof ComparisonResult['groups'];
  readonly title: string;
  readonly hint?: string;
}[] = [
  { name: 'matched', title: 'The same on both sides' },
  { name: 'otherDay', title: 'The same, settled in Idempay on a day next to it' },
  { name: 'unlisted', title: 'Declined in Idempay, not on the statement', hint: 'no money moved' },
  { name: 'different', title: 'Different' },
  { name: 'theirs', title: 'Only at the processor' },
  { name: 'ours', title: 'Only in Idempay' },
  { name: 'unread', title: 'On a line that could not be read' },
  { name: 'duplicate', title: 'Twice on the statement' },
  { name: 'refund', title: 'Refunds', hint: 'not compared' },
  { name: 'chargeback', title: 'Chargebacks', hint: 'not compared' },
  { name: 'fee', title: 'Fees', hint: 'not compared' },
  { name: 'other', title: 'Other lines that are no payments', hint: 'not compared' },
];
const ALWAYS_SHOWN = ['matched', 'different', 'theirs', 'ours'];

export function ResultSummary({ groups }: ComparisonResult) {
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
          { title: 'Count', isNumber: true, cell: ({ name }) => countText(groups[name].count) },
          {
            title: 'Total in Idempay',
            isNumber: true,
            cell: ({ name }) => <Sum group={groups[name]} side="ours" />,
          },
          {
            title: 'Total at the processor',
            isNumber: true,
            cell: ({ name }) => <Sum group={groups[name]} side="theirs" />,
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
