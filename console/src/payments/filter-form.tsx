import { useEffect, useRef, useState } from 'preact/hooks';
import { hashOf, navigate } from '../navigation/route.js';
import { type Filters, hashOfFilters, localMoment, utcMoment } from './filters.js';
import { isWholeKey } from './payment.js';
import { textOf } from './search.js';

/** A pause in typing. */
const TYPED_MS = 350;
const STATES = ['PROCESSING', 'COMPLETED', 'DECLINED', 'CANCELLED'];
/** A part of PROCESSING, which the service lists by a filter of its own. */
const PENDING = 'pending';

/** Typed text is applied after a pause, or with Enter; a whole key leads to its payment with Enter. */
export function FilterForm({ filters }: { filters: Filters }) {
  const shown = textOf(filters);
  const [text, setText] = useState(shown);
  const [processor, setProcessor] = useState(filters.processor);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(shown), [shown]);
  useEffect(() => setProcessor(filters.processor), [filters.processor]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const typed = {
    ...filters,
    ...(text.trim() !== shown && searchFor(text)),
    processor: processor.trim(),
  };

  function apply(changes: Partial<Filters>) {
    clearTimeout(timer.current);
    navigate(hashOfFilters({ ...typed, ...changes }), { replace: true });
  }

  function applySoon(changes: Partial<Filters>) {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => apply(changes), TYPED_MS);
  }

  function submit(event: SubmitEvent) {
    event.preventDefault();
    apply({});
    if (isWholeKey(textOf(typed))) navigate(hashOf('payment', textOf(typed).toLowerCase()));
  }

  return (
    <form class="payment-filters" aria-label="Filters" onSubmit={submit}>
      <div class="find">
        <label for="find">Order number, key, transaction id, description or metadata</label>
        <input
          id="find"
          type="search"
          autocomplete="off"
          spellcheck={false}
          placeholder="order-17, ann@shop.example, or the beginning of a key or an id: 0198f3, TXN1795"
          value={text}
          onInput={({ currentTarget: { value } }) => {
            setText(value);
            applySoon(searchFor(value));
          }}
        />
      </div>
      <div>
        <label for="kind">Kind</label>
        <select id="kind" value={filters.kind} onChange={(event) => apply({ kind: event.currentTarget.value })}>
          <option value="">payments</option>
          <option value="refund">refunds</option>
          <option value="all">both</option>
        </select>
      </div>
      <div>
        <label for="state">State</label>
        <select
          id="state"
          value={filters.pending === 'true' ? PENDING : filters.state}
          onChange={(event) => apply(stateFilters(event.currentTarget.value))}
        >
          <option value="">any</option>
          <option value={PENDING}>waiting for the payer or the bank</option>
          {STATES.map((state) => (
            <option key={state} value={state}>
              {state.toLowerCase()}
            </option>
          ))}
        </select>
      </div>
      <Moment name="from" label="Claimed from" value={filters.from} apply={(from) => apply({ from })} />
      <Moment name="to" label="before" value={filters.to} apply={(to) => apply({ to })} />
      <div>
        <label for="processor">Processor</label>
        <input
          id="processor"
          autocomplete="off"
          spellcheck={false}
          placeholder="any"
          value={processor}
          onInput={({ currentTarget: { value } }) => {
            setProcessor(value);
            applySoon({ processor: value.trim() });
          }}
        />
      </div>
      <button type="submit" class="visually-hidden">
        Search
      </button>
    </form>
  );
}

const stateFilters = (chosen: string): Partial<Filters> =>
  chosen === PENDING ? { state: '', pending: 'true' } : { state: chosen, pending: '' };

const searchFor = (text: string): Partial<Filters> => ({ search: text.trim(), reference: '', find: '' });

function Moment({
  name,
  label,
  value,
  apply,
}: {
  name: string;
  label: string;
  value: string;
  apply(moment: string): void;
}) {
  return (
    <div>
      <label for={name}>{label}</label>
      <input
        id={name}
        type="datetime-local"
        value={localMoment(value)}
        title={value === '' ? undefined : `${value} (UTC)`}
        onChange={(event) => apply(utcMoment(event.currentTarget.value))}
      />
    </div>
  );
}
