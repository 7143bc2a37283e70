import { clipped } from '@idempay/statements';
import { Fact } from '../parts/facts.js';
import type { Payment } from './payment.js';

/** The most that a list shows of a client's content. The view of the payment shows all of it. */
const MOST_IN_LIST = { description: 80, members: 2, name: 20, value: 40 } as const;

/** The content of a payment, in short. Shows nothing if its client said nothing. */
export function ContentInShort({ payment: { description, metadata } }: { payment: Payment }) {
  const { members, name: mostOfName, value: mostOfValue } = MOST_IN_LIST;
  const all = Object.entries(metadata ?? {});
  if (description === null && all.length === 0) return null;
  return (
    <div class="content">
      {description !== null && <bdi>{clipped(description, MOST_IN_LIST.description)}</bdi>}
      {all.slice(0, members).map(([name, value]) => (
        <Member key={name} name={clipped(name, mostOfName)} value={clipped(value, mostOfValue)} />
      ))}
      {all.length > members && <span class="muted">and {all.length - members} more</span>}
    </div>
  );
}

/** The same in full, as lines of `<dl class="facts">`. */
export function ContentFacts({ payment: { description, metadata } }: { payment: Payment }) {
  const all = Object.entries(metadata ?? {});
  return (
    <>
      {description !== null && (
        <Fact name="Description">
          <bdi class="written">{description}</bdi>
        </Fact>
      )}
      {all.length > 0 && (
        <Fact name="Metadata">
          <ul class="metadata">
            {all.map(([name, value]) => (
              <li key={name}>
                <Member name={name} value={value} />
              </li>
            ))}
          </ul>
        </Fact>
      )}
    </>
  );
}

function Member({ name, value }: { name: string; value: string }) {
  return (
    <span>
      <bdi class="muted written">{name}</bdi> <bdi class="written">{value}</bdi>
    </span>
  );
}
