import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { type Config, processorNames } from './config.js';
import { createHealth } from './health/health.js';
import { createReadiness } from './health/readiness.js';
import type { Listener } from './http/connections/listener.js';
import type { SessionFacts } from './http/operations/session.js';
import { createServer } from './http/server.js';
import { RequestLimit } from './limits/request-limit.js';
import { UnpaidKeys } from './limits/unpaid-keys.js';
import { LiveView } from './live/live-view.js';
import { createSampler } from './live/sampler.js';
import { createPaymentLog, type PaymentLog } from './logs/payment-log.js';
import { StoreLog } from './logs/store-log.js';
import { createTransactionLog } from './logs/transaction-log.js';
import { createWebhookLog } from './logs/webhook-log.js';
import { createMetrics } from './metrics/metrics.js';
import { createBacklogWatch } from './payments/backlog.js';
import { isNewestOrderNobodys, tellsAmounts } from './payments/history/newest-payments.js';
import { createPaymentActivity } from './payments/history/payment-activity.js';
import { createPaymentArea } from './payments/payments.js';
import type { ProcessorClient } from './payments/ports/processor.js';
import type { RenewableProcessor } from './payments/processors/http.js';
import { createMovesMoney } from './payments/processors/moves-money.js';
import { createSimulatedProcessor } from './payments/processors/simulated.js';
import { backOffMs, RECOVERY_CONCURRENCY } from './payments/recovery.js';
import { accessRefusal, adoptingClient } from './payments/values/adoption.js';
import { generateIdempotencyKey } from './payments/values/idempotency-key.js';
import { ownerName } from './payments/values/owner.js';
import { lossRefusalOf, refusalOf, warningsOf } from './payments/values/processor-names.js';
import { createComputeKey } from './payments/values/reference.js';
import { createComputeRefundKey } from './payments/values/refund.js';
import { createTransactionIds } from './payments/values/transaction-id.js';
import { type Clock, systemClock } from './platform/clock.js';
import { reasonOf } from './platform/faults.js';
import { authoritiesIn, followFile, type SettingFile, secretIn, type ValueReader } from './platform/setting-files.js';
import { endsWithin } from './platform/time-limit.js';
import { VERSION } from './platform/version.js';
import { FOLDER_WORDS } from './stores/embedded/payments/processor-names.js';
import { withAuthorities } from './stores/postgres/connection/url.js';
import { DATABASE_WORDS } from './stores/postgres/payments/processor-names.js';
import { CannotOpen, type Deployment, type StoreEvents } from './stores/shared/deployment.js';
import type { MeasuredStore, StoreMeasures } from './stores/shared/store-measures.js';
import type { Traces } from './traces/traces.js';
import { createTransactions } from './transactions/transactions.js';
import { openEndpointFile } from './webhooks/endpoint-file.js';
import { createWebhookOperations } from './webhooks/operations.js';

const WORDS = { embedded: FOLDER_WORDS, distributed: DATABASE_WORDS } as const;
/** How long a start waits for the first round of recovery before it serves. It never waits for a processor over the network. */
const RECOVERY_BEFORE_SERVING_MS = { simulated: 2_000, http: 0 } as const;
/** Long enough for every ordinary payment to end; orchestrators usually kill a process after 30 s. */
const DRAIN_LIMIT_MS = 25_000;
const CLOSE_IDLE_EVERY_MS = 100;
/** The names of the stores in the log. */
const STORE_NAMES: Readonly<Record<MeasuredStore, string>> = {
  redis: 'Redis',
  postgresql: 'PostgreSQL',
  sqlite: 'The database file',
};
/** After the limit of a drain: time for the last writes of the attempts that were cut, and for their answers. */
const LAST_WRITES_MS = 1_000;

export interface App {
  /** Serves at the listener, in place of its earlier answers. */
  serve(): Promise<void>;
  /** From now on the process reports that it is not ready; it still serves requests (rule O1). */
  endReadiness(): void;
  /** The processor's name as payment rows store it: without credentials. */
  readonly processorName: string;
  /** Resolves, with the reason, when the stores are broken beyond use. */
  readonly broken: Promise<Error>;
  /** Answers what is under way, for at most `limitMs`, then closes the stores. */
  drain(limitMs?: number): Promise<void>;
}

/** The composition root: opens the deployment, builds the features on it, and wires them to HTTP. */
export async function createApp(config: Config, logger: Logger, listener: Listener, traces?: Traces): Promise<App> {
  const clock = traces?.clock(systemClock) ?? systemClock;
  // Parts that only some settings ask for are loaded only for them, because their libraries take much of the time of a start.
  const access =
    config.access.kind === 'required'
      ? (await import('./access/access.js')).createAccess(config.access, clock, logger)
      : undefined;
  const endpointFile =
    config.webhooksFile === undefined
      ? undefined
      : openEndpointFile(config.webhooksFile, (sentence) => logger.error(sentence));
  const storeLog = new StoreLog(logger, clock);
  const paymentLog = createPaymentLog(logger, storeLog);
  const instance = randomUUID();
  const newOwner = createOwners(instance);
  const metrics = createMetrics(
    config.deployment.kind,
    listener.connections,
    (store) => !storeLog.isDown(STORE_NAMES[store]),
  );
  const deployment = await openDeployment(config, logger, clock, storeLog, metrics.stores);
  const ownNames = processorNames(config);
  await refuseOtherKind(config, deployment, ownNames);
  await refuseOtherAccess(config, deployment);

  const opened = await openProcessor(config, paymentLog, clock, traces?.headers);
  const stopFollowing = followFiles(config, deployment, opened, logger);
  const measured = metrics.measured(opened);
  const processor = traces?.processor(measured) ?? measured;
  const area = createPaymentArea({
    keys: deployment.keys,
    ledger: deployment.ledger,
    refunds: deployment.refunds,
    history: deployment.paymentHistory,
    settlements: deployment.settlements,
    processor,
    rules: { ...config.payments, dedupMs: config.processor.dedupMs },
    recoverAfterMs: backOffMs,
    clock,
    keyClock: deployment.clock,
    newKey: generateIdempotencyKey,
    computeKey: createComputeKey(deployment.id, adoptingClient(deployment.adoption.adopter)),
    computeRefundKey: createComputeRefundKey(deployment.id),
    newTransactionId: createTransactionIds(clock.now),
    newOwner,
    events: paymentLog,
    counts: metrics.payments,
    traceAttempts: traces?.attempts,
  });
  const backlog = createBacklogWatch(deployment.ledger, clock);
  metrics.showBacklog(backlog.latest);
  metrics.showPending(backlog.latestPending);
  const live = new LiveView(instance, deployment.sharedSamples, clock);
  const sampler = createSampler({ instance, process: processIdentity() }, metrics.look, clock, (sample) =>
    live.add(sample),
  );

  const {
    payments,
    records: paymentRecords,
    findTimeline,
    askProcessor,
    recovery,
    retention,
    waiting,
    lockEnds,
  } = area;
  const { settlementFeed } = area;
  metrics.showFeed(settlementFeed);
  const webhooks =
    endpointFile &&
    (await import('./webhooks/webhooks.js')).createWebhooks(endpointFile, newOwner, {
      rows: deployment.endpointRows,
      feed: settlementFeed,
      history: deployment.paymentHistory,
      clock,
      random: Math.random,
      events: createWebhookLog(logger, storeLog),
    });
  if (webhooks) metrics.showWebhooks(webhooks.counts);
  const transactions = createTransactions(deployment.transactions, deployment.transactionCache, {
    counts: metrics.transactions,
    idempotencyTtlMs: config.payments.idempotencyTtlMs,
  });
  const health = createHealth(deployment.keyValueStore, deployment.storeOfRecord, clock);
  const unpaidKeys = new UnpaidKeys(clock, deployment.keyMemoryUsed);
  const readiness = createReadiness(health, processor, unpaidKeys);
  // The framework's own info lines would only repeat what main says.
  const frameworkLogger = logger.level === 'info' ? logger.child({}, { level: 'warn' }) : logger;
  const server = createServer(
    listener,
    {
      payments,
      paymentRecords,
      unpaidKeys,
      settlementFeed,
      webhookOperations: createWebhookOperations(deployment.endpointRows, settlementFeed, endpointFile),
      findTimeline,
      askProcessor,
      paymentActivity: createPaymentActivity(deployment.paymentHistory, clock),
      transactions,
      transactionChanges: createTransactionLog(logger),
      health,
      readiness,
      metrics,
      session: sessionFacts(config, instance, processor.traits.name, createMovesMoney(processor)),
      live,
    },
    {
      access,
      requestLimit:
        config.requestsPerMinute === undefined
          ? undefined
          : new RequestLimit(config.requestsPerMinute, clock, deployment.requestCounts),
      loopbackOnly: config.access.kind === 'none' && config.access.loopbackOnly,
      trustedNetworks: config.trustedNetworks,
    },
    frameworkLogger,
    (fault) => storeLog.refused(fault, 'requests'),
    traces?.outcomes(metrics.http) ?? metrics.http,
    traces?.requests,
  );

  /** Sentences about orders that count as paid although this service's processor did not charge them. */
  async function paidElsewhere(): Promise<readonly string[]> {
    const { used } = deployment.processors;
    if (used.every((name) => ownNames.includes(name))) return [];
    const paid = await deployment.paymentHistory.countPaid().catch(() => undefined);
    return paid ? warningsOf(ownNames, used, paid) : [];
  }

  /** Nobody waits for it: the processor may be down. */
  function tryAmounts(): void {
    tellsAmounts(processor, deployment.paymentHistory).then(
      (areTold) => areTold === false && paymentLog.amountsNotTold(),
      () => {},
    );
  }

  async function lostRows(): Promise<string | undefined> {
    const { processor: settings } = config;
    if (settings.kind === 'simulated') return undefined;
    if (!settings.isLossAccepted) return lossRefusalOf(ownNames, deployment.processors);
    await deployment.ledger.acceptLostRows();
    return undefined;
  }

  function endReadiness(): void {
    readiness.startDraining();
    deployment.storeOfRecord.leave?.();
  }

  return {
    processorName: processor.traits.name,
    broken: deployment.broken,

    async serve() {
      const lossRefusal = await lostRows();
      if (lossRefusal) logger.warn(lossRefusal);
      await recovery.start(RECOVERY_BEFORE_SERVING_MS[config.processor.kind]);
      await retention.start();
      if (access && (await isNewestOrderNobodys(deployment.paymentHistory).catch(() => false))) {
        paymentLog.ordersAreNew();
      }
      for (const warning of await paidElsewhere()) logger.warn(warning);
      if (config.processor.kind === 'http') tryAmounts();
      backlog.start();
      sampler.start();
      webhooks?.start();
      await server.ready();
      listener.serve(server.routing);
    },

    endReadiness,

    async drain(limitMs = DRAIN_LIMIT_MS) {
      endReadiness();
      // A connection whose last answer went out after the drain began would otherwise idle until its time-out.
      const closeIdle = setInterval(() => listener.server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS);
      waiting.close();
      settlementFeed.close();
      // The framework first: it then ends each connection with its answer.
      const connections = server.close().then(() => listener.close());
      const background = Promise.all([recovery.stop(), retention.stop(), backlog.stop(), webhooks?.stop()]);
      // Connections first: an open connection may still bring a request.
      const ended = Promise.all([connections.then(() => server.requestsUnderWay.ended()), background]);
      try {
        if (await endsWithin(limitMs, ended)) return;
        // Before the attempts are cut: a duplicate that sees one end would begin another.
        waiting.end();
        // An attempt that still waits for the processor becomes unknown, and is given up while the stores are open.
        await processor.close();
        const givenUp = await endsWithin(LAST_WRITES_MS, Promise.all([server.requestsUnderWay.ended(), background]));
        if (!givenUp)
          logger.warn('the drain ended before all requests did: their payments continue when their leases end');
      } finally {
        clearInterval(closeIdle);
        listener.server.closeAllConnections();
        await endsWithin(LAST_WRITES_MS, lockEnds.stop());
        access?.close();
        stopFollowing();
        sampler.stop();
        metrics.stop();
        await processor.close();
        await deployment.close();
        await traces?.close();
      }
    },
  };
}

async function openDeployment(
  { access, deployment, transactionCacheTtlMs }: Config,
  logger: Logger,
  clock: Clock,
  events: StoreEvents,
  measures: StoreMeasures,
): Promise<Deployment> {
  const warn = (sentence: string, cause?: Error) => logger.warn(cause ? { reason: reasonOf(cause) } : {}, sentence);
  const common = { transactionCacheTtlMs, clock, notices: { warn }, events, measures };
  const { migrations } = deployment;
  switch (deployment.kind) {
    case 'embedded': {
      const { openEmbedded } = await import('./stores/embedded/open.js');
      return openEmbedded({ dataDir: deployment.dataDir, migrations, ...common });
    }
    case 'distributed': {
      const { openDistributed } = await import('./stores/distributed.js');
      const { redis, databaseUrl, databaseCa, databasePoolSize } = deployment;
      return openDistributed({
        redis,
        databaseUrl,
        databaseCa,
        databasePoolSize,
        access: access.kind,
        migrations,
        ...common,
      });
    }
  }
}

/** Simulated payments and others are kept apart (rule P14). Throws CannotOpen. A start without payments decides nothing. */
async function refuseOtherKind(
  { deployment: { kind } }: Config,
  deployment: Deployment,
  [name = '']: readonly string[],
) {
  await refuse(deployment, refusalOf(name, deployment.processors.used, WORDS[kind]));
}

/** Orders that were paid with credentials, or without, must not become new ones. Throws CannotOpen. */
async function refuseOtherAccess({ access, deployment: { kind } }: Config, deployment: Deployment) {
  await refuse(deployment, await accessRefusal(access.kind, deployment.adoption, WORDS[kind].place));
}

async function refuse(deployment: Deployment, refusal: string | undefined): Promise<void> {
  if (refusal === undefined) return;
  await deployment.close();
  throw new CannotOpen(refusal);
}

async function openProcessor(
  { processor, payments }: Config,
  log: PaymentLog,
  clock: Clock,
  traceHeaders: Traces['headers'] | undefined,
): Promise<ProcessorClient & Partial<RenewableProcessor>> {
  switch (processor.kind) {
    case 'simulated':
      return createSimulatedProcessor(processor.delayMs);
    case 'http': {
      const { createAlarm, createHttpProcessor } = await import('./payments/processors/http.js');
      const connections = payments.maxInFlight + RECOVERY_CONCURRENCY;
      return createHttpProcessor({
        ...processor,
        connections,
        alarm: createAlarm(log.processorAlarm, clock),
        sourceNotRead: log.sourceNotRead,
        traceHeaders,
      });
    }
  }
}

const ADDRESS_STAYS =
  'only the password of the address may change while the service runs (another user is another account): restart it for anything else';
const READ_ONCE = 'the file counts at the start only: restart the service to use its new content';

/** Passwords and authorities that change while the service runs, for new connections. The function that it returns ends this. */
function followFiles(
  { secretFiles, authorityFiles }: Config,
  deployment: Deployment,
  processor: Partial<RenewableProcessor>,
  log: Logger,
): () => void {
  const databaseCa = authorityFiles.find(({ name }) => name === 'DATABASE_CA_FILE');
  const take: Readonly<Record<string, (text: string) => boolean | undefined>> = {
    REDIS_URL_FILE: (text) => deployment.takeSecret?.('REDIS_URL', text),
    DATABASE_URL_FILE: (text) =>
      deployment.takeSecret?.('DATABASE_URL', databaseCa ? withAuthorities(text, databaseCa.path) : text),
    PROCESSOR_URL_FILE: (text) => processor.takeUrl?.(text),
    REDIS_CA_FILE: (text) => deployment.takeSecret?.('REDIS_CA', text),
    DATABASE_CA_FILE: (text) => deployment.takeSecret?.('DATABASE_CA', text),
    PROCESSOR_CA_FILE(text) {
      processor.takeAuthorities?.(text);
      return true;
    },
  };
  const follow = (read: ValueReader) => (file: SettingFile) => {
    const refusal = file.name.endsWith('_URL_FILE') ? ADDRESS_STAYS : READ_ONCE;
    return followFile(file, read, (text) => (take[file.name]?.(text) ? undefined : refusal), log);
  };
  const ends = [...secretFiles.map(follow(secretIn)), ...authorityFiles.map(follow(authoritiesIn))];
  return () => {
    for (const end of ends) end();
  };
}

function sessionFacts(
  { access, deployment, payments, processor }: Config,
  instance: string,
  name: string,
  movesMoney: SessionFacts['processor']['movesMoney'],
): SessionFacts {
  return {
    access: access.kind,
    version: VERSION,
    deployment: deployment.kind,
    instance,
    processor: { name, movesMoney },
    recovery: { dedupSeconds: processor.dedupMs / 1_000, keyTtlSeconds: payments.idempotencyTtlMs / 1_000 },
  };
}

/** How the live view identifies this process. */
function processIdentity() {
  return { host: hostname(), pid: process.pid, version: VERSION, startedAt: Math.round(performance.timeOrigin) };
}

/** Names each attempt of this process: no other process, before or after, makes the same name. */
function createOwners(instance: string): (by?: string) => string {
  let attempts = 0;
  return (by) => {
    attempts += 1;
    return ownerName(instance, attempts, by);
  };
}
