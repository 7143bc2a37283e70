import { useEffect, useId, useState } from 'preact/hooks';
import { hashOf, navigate } from '../navigation/route.js';
import { type Filter, STATUSES } from './transaction.js';

const NONE: Filter = { id: '', from: '', to: '', status: '' };

/** They are in the address, so that a search can be shared and gone back to. */
export function TransactionFilters({ filter }: { filter: Filter }) {
  const [typed, setTyped] = useState(filter);
  const { id, from, to, status } = filter;
  useEffect(() => setTyped({ id, from, to, status }), [id, from, to, status]);

  const fields = useId();
  const show = (wanted: Filter) => navigate(addressOf(wanted));
  const field = (name: 'id' | 'from' | 'to', label: string, hint: string) => (
    <div class="field">
      <label for={`${fields}${name}`}>{label}</label>
      <input
        id={`${fields}${name}`}
        value={typed[name]}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        dir="auto"
        inputmode={name === 'id' ? 'numeric' : undefined}
        onInput={({ currentTarget }) => setTyped({ ...typed, [name]: currentTarget.value })}
      />
    </div>
  );

  return (
    <search>
      <form
        class="transaction-filters"
        onSubmit={(event) => {
          event.preventDefault();
          show({ ...typed, id: typed.id.trim() });
        }}
      >
        {field('from', 'From', 'account')}
        {field('to', 'To', 'account')}
        <div class="field">
          <label for={`${fields}status`}>Status</label>
          <select
            id={`${fields}status`}
            value={typed.status}
            onChange={({ currentTarget }) => {
              const chosen = { ...typed, status: currentTarget.value };
              setTyped(chosen);
              show(chosen);
            }}
          >
            <option value="">any</option>
            {STATUSES.map((name) => (
              <option key={name} value={name}>
                {name.replace('_', ' ')}
              </option>
            ))}
          </select>
        </div>
        {field('id', 'Or by id', '15 digits')}
        <div class="actions">
          <button type="submit" class="primary">
            Search
          </button>
          <button type="button" class="quiet" disabled={!id && !from && !to && !status} onClick={() => show(NONE)}>
            Clear
          </button>
        </div>
      </form>
    </search>
  );
}

/** An id finds one transaction, and all other filters are ignored. */
export function addressOf({ id, from, to, status }: Filter): string {
  return hashOf('transactions', '', id === '' ? { from, to, status } : { id });
}
