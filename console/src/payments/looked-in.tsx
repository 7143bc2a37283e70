import { countText } from '../parts/numbers.js';
import { Time } from '../parts/time.js';
import type { Looked } from './use-payment-pages.js';

/** The places where a text was looked for, how far, and the results. */
export function LookedIn({ looked, seesAll }: { looked: readonly Looked[]; seesAll: boolean }) {
  return (
    <div class="muted note" role="status" aria-label="What was searched">
      <ul class="looked-in">
        {looked.map((one) => (
          <li key={one.source.looksIn}>
            <Where {...one} />: {one.found === 0 ? 'nothing' : `${countText(one.found)} found`}
            {!one.isWhole && ' so far'}
          </li>
        ))}
        {!seesAll && (
          <li>Descriptions and metadata are searched with the scope operations or payments:read:all only.</li>
        )}
      </ul>
    </div>
  );
}

function Where({ source, searchedFrom, isWhole }: Looked) {
  switch (source.looksIn) {
    case 'order numbers':
      return <>Whole order numbers</>;
    case 'keys':
      return <>Keys that begin so</>;
    case 'transaction ids':
      return <>Transaction ids that begin so</>;
    case 'content':
      return (
        <>
          Whole descriptions and values of the metadata, letter case included, of payments since{' '}
          <Time at={source.query.from} />
          {!isWhole && (
            <>
              , of which those since <Time at={searchedFrom} /> are searched
            </>
          )}
        </>
      );
    case 'payments':
      return <>Payments</>;
  }
}
