import type { Http } from '../http/http.js';
import { DeliberateDialog } from '../parts/deliberate-dialog.js';
import { countText } from '../parts/numbers.js';
import { type Change, sendChange, type Webhook } from './webhook.js';

interface Properties {
  readonly http: Http;
  readonly webhook: Webhook;
  readonly change: Change;
  done(sentence: string): void;
  back(): void;
}

const WORDS = {
  start: { act: 'Start', acting: 'Starting…', purpose: 'To start it' },
  stop: { act: 'Stop', acting: 'Stopping…', purpose: 'To stop it' },
  resend: { act: 'Resend', acting: 'Resending…', purpose: 'To resend' },
} as const;

/** Says what follows, and wants a word typed. */
export function ChangeDialog({ http, webhook, change, done, back }: Properties) {
  const { verb } = change;
  const { act, acting, purpose } = WORDS[verb];

  async function send(): Promise<string | undefined> {
    const { isDone, sentence } = await sendChange(http, webhook.name, change);
    if (!isDone) return sentence;
    done(sentence);
    return undefined;
  }

  return (
    <DeliberateDialog
      title={`${act} ${verb === 'resend' ? `to ${webhook.name}` : webhook.name}?`}
      word={verb}
      purpose={purpose}
      act={act}
      acting={acting}
      send={send}
      back={back}
    >
      <p>
        <Consequence webhook={webhook} change={change} />
      </p>
    </DeliberateDialog>
  );
}

function Consequence({ webhook: { name, stoppedBy, setAside }, change }: Pick<Properties, 'webhook' | 'change'>) {
  const endpoint = (
    <strong>
      <bdi>{name}</bdi>
    </strong>
  );
  if (change.verb === 'stop') {
    return (
      <>Within seconds nothing more is sent to {endpoint}. Nothing is lost: once started, it goes on where it was.</>
    );
  }
  if (change.verb === 'start') {
    return (
      <>
        {endpoint} goes on where it was stopped, with everything that was settled meanwhile.
        {stoppedBy === 'receiver' && ' If its receiver answers 410 again, it is stopped again.'}
      </>
    );
  }
  const tried = stoppedBy === null ? 'is tried again within seconds' : 'is tried again once the endpoint is started';
  return change.key === undefined ? (
    <>
      Everything that is set aside ({countText(setAside)}) {tried}. A receiver that has taken one knows it by its id.
    </>
  ) : (
    <>
      The settlement <code>{change.key}</code> {tried}. A receiver that has taken it knows it by its id.
    </>
  );
}
