import { hasOwnHeader } from '@idempay/client/proof';
import type { Http } from '../http/http.js';
import { foreignAnswer } from '../http/service-error.js';
import type { ViewProperties } from '../navigation/route.js';
import { Badge } from '../parts/badge.js';
import { Copyable } from '../parts/copy-button.js';
import { durationText } from '../parts/duration.js';
import { Fact } from '../parts/facts.js';
import { bytesText, countText, shareText } from '../parts/numbers.js';
import { ErrorState, LoadingState } from '../parts/states.js';
import { useAnswer } from '../parts/use-answer.js';
import './service-view.css';

/** `GET /readyz`, whose refusals have the body of every error. */
interface Readiness {
  readonly status: string;
  readonly storeOfRecord?: string;
  readonly keyValueStore?: string;
  readonly processor?: string;
  readonly message?: string;
}

/** `GET /api/health/redis/stats`. */
interface StoreStatistics {
  readonly totalKeys: number;
  readonly usedMemoryBytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly connectedClients: number;
  readonly uptimeSeconds: number;
  readonly version: string;
}

/** The identity of the service, the state of its parts, and the rights of the credential. */
export default function ServiceView({ session, http, may }: ViewProperties) {
  const { recovery, processor } = session;
  const parts = useAnswer((signal) => readReadiness(http, signal), [http]);
  const isOperator = may('operations');
  const store = useAnswer(
    async (signal) =>
      isOperator ? (await http.ask<StoreStatistics>('api/health/redis/stats', { signal })).body : undefined,
    [http],
  );
  return (
    <div class="service-view">
      <div class="view-head">
        <h1>Service</h1>
        <button
          type="button"
          onClick={() => {
            parts.again();
            store.again();
          }}
        >
          Ask again
        </button>
      </div>
      <section class="panel">
        <header>
          <h2>This process</h2>
          <Parts answer={parts.problem === undefined ? parts.answer : undefined} />
        </header>
        {parts.problem && <ErrorState sentence={parts.problem} action={{ label: 'Try again', run: parts.again }} />}
        <dl class="facts">
          <Fact name="Version">{session.version}</Fact>
          <Fact name="Deployment">{session.deployment}</Fact>
          <Fact name="Instance">
            <Copyable text={session.instance} what="the instance" />
          </Fact>
          <Fact name="Processor">
            <bdi>{processor.name}</bdi>{' '}
            <span class="muted">
              {processor.movesMoney === false
                ? 'moves no money'
                : processor.movesMoney
                  ? 'moves money'
                  : 'may move money'}
            </span>
          </Fact>
          <Fact name="A key lives">{durationText(recovery.keyTtlSeconds * 1_000)}</Fact>
          <Fact name="Sent again within">{durationText(recovery.dedupSeconds * 1_000)}</Fact>
        </dl>
      </section>
      <section class="panel">
        <header>
          <h2>Your access</h2>
        </header>
        <dl class="facts">
          <Fact name="Client">{session.client === null ? 'nobody signs in here' : <bdi>{session.client}</bdi>}</Fact>
          <Fact name="Scopes">
            <ul>
              {session.scopes.map((scope) => (
                <li key={scope}>
                  <code>{scope}</code>
                </li>
              ))}
            </ul>
          </Fact>
        </dl>
      </section>
      {isOperator && (
        <section class="panel">
          <header>
            <h2>Key-value store</h2>
          </header>
          {store.problem && <ErrorState sentence={store.problem} />}
          {!store.answer && store.isLoading && <LoadingState what="its statistics" />}
          {store.answer && <Statistics store={store.answer} />}
        </section>
      )}
    </div>
  );
}

/** Also a refusal has a body to show, but only the service's own. */
async function readReadiness(http: Http, signal: AbortSignal): Promise<Readiness> {
  const response = await http.send('readyz', { signal });
  if (!hasOwnHeader(response.headers)) throw foreignAnswer(response.status);
  return response.json();
}

function Statistics({ store }: { store: StoreStatistics }) {
  return (
    <dl class="facts">
      <Fact name="Version">{store.version}</Fact>
      <Fact name="Up for">{durationText(store.uptimeSeconds * 1_000)}</Fact>
      <Fact name="Keys">{countText(store.totalKeys)}</Fact>
      <Fact name="Memory">{bytesText(store.usedMemoryBytes)}</Fact>
      <Fact name="Found">{hitShare(store)}</Fact>
      <Fact name="Connections">{countText(store.connectedClients)}</Fact>
    </dl>
  );
}

function Parts({ answer }: { answer: Readiness | undefined }) {
  if (!answer) return null;
  if (answer.message !== undefined) return <Badge tone="bad">not ready</Badge>;
  const away = (['storeOfRecord', 'keyValueStore', 'processor'] as const).filter((part) => answer[part] === 'away');
  if (away.length === 0 && answer.keyValueStore === 'full')
    return <Badge tone="warn">key-value store nearly full: keys without a reference are refused</Badge>;
  if (away.length === 0) return <Badge tone="good">{answer.status}</Badge>;
  return <Badge tone="warn">{away.map((part) => NAMES[part]).join(', ')} away</Badge>;
}

const NAMES = { storeOfRecord: 'store of record', keyValueStore: 'key-value store', processor: 'processor' } as const;

function hitShare({ hits, misses }: StoreStatistics): string {
  return hits + misses === 0 ? 'nothing asked yet' : shareText(hits / (hits + misses));
}
