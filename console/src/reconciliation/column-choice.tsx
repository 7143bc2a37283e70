import { Table } from '../parts/table.js';
import { type Columns, MEMBERS, type Member } from './columns.js';
import type { ChosenStatement } from './use-reconciliation.js';

const LABELS: Readonly<Record<Member, string>> = {
  reference: 'Idempotency key (reference)',
  transactionId: 'Our transaction id',
  amount: 'Amount',
  currency: 'Currency',
  status: 'Status',
};
const NONE = '';

/** Which column has what; those that were recognised are chosen already. */
export function ColumnChoice({ chosen, assign }: { chosen: ChosenStatement; assign(columns: Columns): void }) {
  const { head, columns } = chosen;
  const { names } = head.format;
  return (
    <fieldset class="columns">
      <legend>
        Columns ({head.format.kind}, {names.length})
      </legend>
      <div class="fields">
        {MEMBERS.map((member) => (
          <div key={member}>
            <label for={`column-${member}`}>{LABELS[member]}</label>
            <select
              id={`column-${member}`}
              value={String(columns[member] ?? NONE)}
              onChange={({ currentTarget: { value } }) =>
                assign({ ...columns, [member]: value === NONE ? undefined : Number(value) })
              }
            >
              <option value={NONE}>{member === 'status' ? 'none: all were paid' : 'none'}</option>
              {names.map((name, index) => (
                <option key={index} value={String(index)}>
                  {name === '' ? `column ${index + 1}` : name}
                </option>
              ))}
            </select>
          </div>
        ))}
      </div>
      <details>
        <summary>Its first lines</summary>
        <Table
          caption="The first lines of the statement"
          columns={names.map((name, index) => ({
            title: name === '' ? `column ${index + 1}` : name,
            cell: (row: readonly string[]) => <bdi>{row[index]}</bdi>,
          }))}
          rows={head.sample}
          keyOf={(row) => row.join('\n')}
        />
      </details>
    </fieldset>
  );
}
