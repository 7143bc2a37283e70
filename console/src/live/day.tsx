import { useMemo } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { countText } from '../parts/numbers.js';
import { ErrorState } from '../parts/states.js';
import { useAnswer } from '../parts/use-answer.js';
import { useAskedAgain } from '../parts/use-asked-again.js';
import { Chart } from './chart.js';
import { WHOLE_STEPS } from './charts.js';
import type { PlotData } from './plot.js';

/** `GET /api/payments/activity`: out of the rows, oldest first. */
interface Activity {
  readonly bucketMs: number;
  readonly to: number;
  /** False: older buckets are not counted yet, and the next request continues with them. */
  readonly complete: boolean;
  readonly buckets: readonly { readonly from: number; readonly completed: number; readonly declined: number }[];
}

const AGAIN_MS = 60_000;
const GO_ON_MS = 1_000;
/** The whole bar, and in front of it the completed payments, so that the declined ones stay visible. */
const SERIES = [
  { name: 'declined', style: 2 },
  { name: 'completed', style: 0 },
] as const;
const MINUTE_MS = 60_000;

/** The last 24 hours, including times when no page was open or no process ran. */
export function Day({ http }: { http: Http }) {
  const asked = useAnswer(
    async (signal) => (await http.ask<Activity>('api/payments/activity', { signal })).body,
    [http],
  );
  const { answer, problem, again } = asked;
  const isCounting = answer?.complete === false;
  // After a failure the answer before it is still there.
  useAskedAgain(asked, isCounting && problem === undefined ? GO_ON_MS : AGAIN_MS);
  const data = useMemo<PlotData>(
    () => [
      (answer?.buckets ?? []).map(({ from }) => from),
      (answer?.buckets ?? []).map(({ completed, declined }) => completed + declined || null),
      (answer?.buckets ?? []).map(({ completed }) => completed || null),
    ],
    [answer],
  );
  if (!answer) {
    if (problem === undefined) return null;
    return (
      <div class="chart full">
        <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />
      </div>
    );
  }
  const { buckets } = answer;
  const countOf = (line: number, index: number) =>
    (line === 0 ? buckets[index]?.declined : buckets[index]?.completed) ?? 0;
  const totalOf = (line: number) => buckets.reduce((sum, _, index) => sum + countOf(line, index), 0);
  return (
    <Chart
      title={`Last 24 hours, payments settled in ${countText(answer.bucketMs / MINUTE_MS)} minutes${isCounting ? ' (older ones are still counted)' : ''}`}
      kind="bars"
      series={SERIES}
      data={data}
      shown={[true, true]}
      latestIndex={buckets.length - 1}
      version={answer.to}
      text={countText}
      steps={WHOLE_STEPS}
      shownValue={countOf}
      summary={(line) => `${countText(totalOf(line))} in all`}
      width="full"
    />
  );
}
