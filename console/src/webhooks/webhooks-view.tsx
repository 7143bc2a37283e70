import { useState } from 'preact/hooks';
import type { ViewProperties } from '../navigation/route.js';
import { EmptyState, ErrorState, LoadingState, Note } from '../parts/states.js';
import { useAnswer } from '../parts/use-answer.js';
import { useAskedAgain } from '../parts/use-asked-again.js';
import { ChangeDialog } from './change-dialog.js';
import { Endpoint } from './endpoint.js';
import { type Change, listWebhooks, type Webhook } from './webhook.js';
import './webhooks.css';

const AGAIN_MS = 5_000;

/** The endpoints that are told of settlements, what is set aside, and what an operator does with them. */
export default function WebhooksView({ http }: ViewProperties) {
  const asked = useAnswer((signal) => listWebhooks(http, signal), [http]);
  useAskedAgain(asked, AGAIN_MS);
  const [changing, setChanging] = useState<{ readonly webhook: Webhook; readonly change: Change }>();
  const [done, setDone] = useState<string>();
  const { answer, problem, isLoading, again } = asked;
  return (
    <div class="webhooks-view">
      <div class="view-head">
        <h1>Webhooks</h1>
        <button type="button" onClick={again}>
          Refresh
        </button>
      </div>
      {done !== undefined && (
        <Note isDone dismiss={() => setDone(undefined)}>
          <p>
            <bdi>{done}</bdi>
          </p>
        </Note>
      )}
      {problem && <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />}
      {!answer && isLoading && <LoadingState what="the endpoints" />}
      {answer?.webhooks.length === 0 && (
        <EmptyState title="No endpoint is told of settlements">
          Name the endpoints in the file of <code>WEBHOOKS_FILE</code>. Each appears here once a process serves it.
        </EmptyState>
      )}
      {answer?.webhooks.map((webhook) => (
        <Endpoint
          key={webhook.name}
          http={http}
          webhook={webhook}
          at={answer.at}
          change={(change) => setChanging({ webhook, change })}
        />
      ))}
      {changing && (
        <ChangeDialog
          {...changing}
          http={http}
          done={(sentence) => {
            setChanging(undefined);
            setDone(sentence);
            again();
          }}
          back={() => setChanging(undefined)}
        />
      )}
    </div>
  );
}
