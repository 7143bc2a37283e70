import {
  DELIMITERS,
  type DecimalMark,
  MEMBERS,
  type Member,
  type Reading,
  repeatedMembers,
  type StatementFormat,
} from '@idempay/statements';
import { Table } from '../parts/table.js';
import type { ChosenStatement } from './use-reconciliation.js';

const LABELS: Readonly<Record<Member, string>> = {
  reference: 'Idempotency key, or order number',
  order: 'Order number, if in another column',
  refund: 'Key of the refund, if in another column',
  transactionId: 'Our transaction id',
  amount: 'Amount',
  credit: 'Credit',
  debit: 'Debit',
  side: 'Debit or credit, if the amount has no sign',
  currency: 'Currency',
  status: 'Status',
  type: 'Type',
  refunded: 'Amount that was refunded, in the line of a payment',
  captured: 'Captured, or only authorized',
};
const NONE = '';
const NONE_MEANS: Readonly<Partial<Record<Member, string>>> = {
  status: 'none: all were paid',
  type: 'none: negative lines are no payments',
};
const DELIMITER_NAMES: Readonly<Record<string, string>> = { ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'bar' };

interface Properties {
  readonly chosen: ChosenStatement;
  assign(reading: Reading): void;
  choose(file: File, delimiter: string): void;
}

/** How the file is read: recognised columns are chosen already. */
export function StatementReading({ chosen, assign, choose }: Properties) {
  const { head, reading } = chosen;
  const { format } = head;
  const { columns } = reading;
  const repeated = repeatedMembers(head.columns, format.names);
  return (
    <fieldset class="columns">
      <legend>
        Columns ({format.kind}, {format.names.length})
      </legend>
      {skippedLines(format) > 0 && (
        <p class="note">
          {skippedLines(format) === 1
            ? 'The first line is no header and is skipped.'
            : `The first ${skippedLines(format)} lines are no header and are skipped.`}
        </p>
      )}
      {repeated.length > 0 && (
        <p class="note warn">
          Several columns have the same name. Choose which one counts:{' '}
          {repeated.map((member) => LABELS[member]).join('; ')}.
        </p>
      )}
      <div class="fields">
        {MEMBERS.map((member) => (
          <Choice
            key={member}
            id={`column-${member}`}
            label={LABELS[member]}
            value={String(columns[member] ?? NONE)}
            options={[
              [NONE, NONE_MEANS[member] ?? 'none'],
              ...format.names.map((name, index) => [String(index), titleOf(name, index)] as const),
            ]}
            choose={(value) =>
              assign({ ...reading, columns: { ...columns, [member]: value === NONE ? undefined : Number(value) } })
            }
          />
        ))}
        {columns.currency === undefined && (
          <div>
            <label for="currency">Currency of all lines</label>
            <input
              id="currency"
              autocomplete="off"
              spellcheck={false}
              maxLength={3}
              placeholder="such as EUR"
              value={reading.currency ?? ''}
              onInput={({ currentTarget: { value } }) => assign({ ...reading, currency: value.trim().toUpperCase() })}
            />
          </div>
        )}
        <Choice
          id="decimal-mark"
          label="Before the decimals"
          value={reading.decimalMark ?? NONE}
          options={[
            [NONE, 'as the amounts show'],
            ['.', 'a point: 1,000.50'],
            [',', 'a comma: 1.000,50'],
          ]}
          choose={(value) => assign({ ...reading, decimalMark: value === NONE ? undefined : (value as DecimalMark) })}
        />
        {format.kind === 'CSV' && (
          <Choice
            id="delimiter"
            label="Between the fields"
            value={format.delimiter}
            options={[...new Set([...DELIMITERS, format.delimiter])].map((mark) => [
              mark,
              DELIMITER_NAMES[mark] ?? mark,
            ])}
            choose={(value) => choose(chosen.file, value)}
          />
        )}
      </div>
      <details>
        <summary>Its first lines</summary>
        <Table
          caption="The first lines of the statement"
          columns={format.names.map((name, index) => ({
            title: titleOf(name, index),
            cell: (row: readonly string[]) => <bdi>{row[index]}</bdi>,
          }))}
          rows={head.sample}
          keyOf={(row) => row.join('\n')}
        />
      </details>
    </fieldset>
  );
}

const titleOf = (name: string, index: number) => (name === '' ? `column ${index + 1}` : name);

const skippedLines = (format: StatementFormat) => (format.kind === 'CSV' ? format.headerLine - 1 : 0);

interface ChoiceProperties {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  choose(value: string): void;
}

function Choice({ id, label, value, options, choose }: ChoiceProperties) {
  return (
    <div>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}
