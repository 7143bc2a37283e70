import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectOverTls } from 'node:tls';
import { AbstractConnector, type Redis, type RedisOptions } from 'ioredis';
import type { CannotOpen } from '../../shared/deployment.js';
import { messageOf } from './fault.js';
import { type RedisLocation, type RedisNode, tlsOf } from './url.js';
import { askServer, connectionTo, refusalBehind, wrongRedis } from './visit.js';

/** A Sentinel that has not answered by then counts as silent: the others must not wait for it. */
const ANSWER_LIMIT_MS = 900;
/** Sentinels that the URL does not name are learned from answers of others; a limit, because nothing forgets them. */
const MAX_SENTINELS = 20;
const ASK_AGAIN_MIN_MS = 50;
const ASK_AGAIN_MAX_MS = 1_000;

/** Refusals by a Sentinel, or by a server that is none, with the problem of `REDIS_URL` (said before its words) and what to do. */
const REFUSALS: readonly (readonly [RegExp, string, string])[] = [
  [/^it knows no master/, '', 'End REDIS_URL with the name that the Sentinels give to the master'],
  [/unknown command/i, 'it is not a Sentinel: ', 'Write redis://host:6379, or redis+cluster:// for a Cluster'],
  [
    /^NOAUTH|^NOPERM/,
    'this Sentinel asks for a password: ',
    'User and password of REDIS_URL are for the data servers: let the Sentinels answer without one',
  ],
];

/** The answer of one Sentinel, or why it gave none. */
type SentinelAnswer = { readonly sentinel: string } & (
  | { readonly master: NamedMaster }
  | { readonly silence: string; readonly node: RedisNode; readonly error: unknown }
);

/** The answers of all Sentinels when they were asked last. */
export interface SentinelAnswers {
  readonly answers: readonly SentinelAnswer[];
  /** The master that most Sentinels with the newest configuration name; undefined when none answered. */
  readonly master: NamedMaster | undefined;
  /** True if a Sentinel with the newest configuration names this server. */
  isNamed(address: string): boolean;
}

/** A master, by the configuration of that epoch: each failover has a higher one. */
export type NamedMaster = RedisNode & { readonly epoch: number };

export function addressOf({ host, port }: RedisNode): string {
  return `${host}:${port}`;
}

/** `127.0.0.1:26379 names 127.0.0.1:6379 (epoch 2), 127.0.0.1:26380 does not answer`, for a person. */
export function wordsOf({ answers }: SentinelAnswers): string {
  return answers
    .map((answer) =>
      'master' in answer
        ? `${answer.sentinel} names ${addressOf(answer.master)} (epoch ${answer.master.epoch})`
        : `${answer.sentinel} does not answer (${answer.silence})`,
    )
    .join(', ');
}

/**
 * The Sentinels of one master. Each question goes to all of them at once, on new connections, and the newest configuration
 * counts: one that hangs, or does not know of a failover yet, can neither delay nor mislead us.
 */
export class Sentinels {
  /** When they were asked last. */
  latest: SentinelAnswers = readAnswers([]);
  private readonly known = new Map<string, RedisNode>();
  /** The master of each connection as the Sentinels name it; the socket's address may differ. */
  private readonly masters = new WeakMap<object, NamedMaster>();

  constructor(private readonly location: RedisLocation & { readonly topology: 'sentinel' }) {
    for (const sentinel of location.sentinels) this.known.set(addressOf(sentinel), sentinel);
  }

  get nodes(): readonly RedisNode[] {
    return [...this.known.values()];
  }

  /** The master that a connection was made to. */
  masterBehind(stream: object): NamedMaster | undefined {
    return this.masters.get(stream);
  }

  connectedTo(master: NamedMaster, stream: object): void {
    this.masters.set(stream, master);
  }

  /** Resolves within about two seconds, and never rejects. */
  async ask(): Promise<SentinelAnswers> {
    this.latest = readAnswers(await Promise.all(this.nodes.map((node) => this.askOne(node))));
    return this.latest;
  }

  /** Why Sentinels named no master when they were asked last, as far as only another `REDIS_URL` can change that. */
  async refusals(): Promise<CannotOpen[]> {
    const refusals = this.latest.answers.map(async (answer) => {
      if ('master' in answer) return undefined;
      const { node, silence, error } = answer;
      const [, problem = '', advice] = REFUSALS.find(([words]) => words.test(silence)) ?? [];
      return advice ? wrongRedis(node, problem + silence, advice) : refusalBehind(error, node, this.location);
    });
    return (await Promise.all(refusals)).filter((refusal) => refusal !== undefined);
  }

  /** For a connection to a Sentinel. */
  options(node: RedisNode): RedisOptions {
    const limits = { connectTimeout: ANSWER_LIMIT_MS, commandTimeout: ANSWER_LIMIT_MS };
    return { ...connectionTo(node, this.location), ...limits };
  }

  private async askOne(node: RedisNode): Promise<SentinelAnswer> {
    const sentinel = addressOf(node);
    const asked = await askServer(this.options(node), (server) => this.askForMaster(server));
    if ('answer' in asked) return { sentinel, master: asked.answer };
    return { sentinel, silence: messageOf(asked.error), node, error: asked.error };
  }

  private async askForMaster(server: Redis): Promise<NamedMaster> {
    const ask = (question: string) => server.call('SENTINEL', question, this.location.master);
    const [address, fields, others] = await Promise.all([
      ask('GET-MASTER-ADDR-BY-NAME'),
      // A Sentinel behind a proxy may refuse these; the address is what counts.
      ask('MASTER').catch(() => []),
      ask('SENTINELS').catch(() => []),
    ]);
    if (!Array.isArray(address)) throw new Error(`it knows no master named ${this.location.master}`);
    for (const other of others as unknown[][]) this.learn(other);
    const epoch = Number(fieldIn(fields as unknown[], 'config-epoch') ?? 0);
    return { host: String(address[0]), port: Number(address[1]), epoch };
  }

  private learn(other: readonly unknown[]): void {
    const [host, port] = [fieldIn(other, 'ip'), Number(fieldIn(other, 'port'))];
    if (!host || !port || this.known.size >= MAX_SENTINELS) return;
    this.known.set(addressOf({ host, port }), { host, port });
  }
}

/** Connects ioredis to the master that the Sentinels name, and asks all of them again for each new connection. */
export function sentinelConnector(
  sentinels: Sentinels,
  location: Pick<RedisLocation, 'tls' | 'ca'>,
): NonNullable<RedisOptions['Connector']> {
  return class extends AbstractConnector {
    constructor(options: unknown) {
      super((options as { readonly disconnectTimeout: number }).disconnectTimeout);
    }

    override async connect(emit: (type: string, error: Error) => void) {
      this.connecting = true;
      const master = await this.untilNamed(emit);
      // Undefined only for a client that was closed for good, which must not connect again.
      if (!master || !this.connecting) throw new Error('Connection is closed.');
      const { host, port } = master;
      const tls = tlsOf(location);
      const stream = tls ? connectOverTls({ host, port, ...tls }) : createConnection({ host, port });
      this.stream = stream;
      sentinels.connectedTo(master, stream);
      stream.once('error', (error) => {
        this.firstError = error;
      });
      return stream;
    }

    /** False for a replica: ioredis then disconnects, and the Sentinels are asked again. */
    override check(info: { readonly role?: string }): boolean {
      return info.role === undefined || info.role === 'master';
    }

    private async untilNamed(emit: (type: string, error: Error) => void): Promise<NamedMaster | undefined> {
      for (let pauseMs = ASK_AGAIN_MIN_MS; ; pauseMs = Math.min(2 * pauseMs, ASK_AGAIN_MAX_MS)) {
        const { master } = await sentinels.ask();
        if (master || !this.connecting) return master;
        emit('error', new Error('no Sentinel names a master'));
        await delay(pauseMs, undefined, { ref: false });
      }
    }
  };
}

function readAnswers(answers: readonly SentinelAnswer[]): SentinelAnswers {
  const named = answers.flatMap((answer) => ('master' in answer ? [answer.master] : []));
  const newestEpoch = Math.max(...named.map(({ epoch }) => epoch));
  const newest = named.filter(({ epoch }) => epoch === newestEpoch);
  const votesFor = (address: string) => newest.filter((master) => addressOf(master) === address).length;
  const [master] = newest.toSorted((one, other) => votesFor(addressOf(other)) - votesFor(addressOf(one)));
  return { answers, master, isNamed: (address) => votesFor(address) > 0 };
}

/** From the flat list of names and values with which a Sentinel describes a server. */
function fieldIn(fields: readonly unknown[], name: string): string | undefined {
  const at = fields.indexOf(name);
  return at < 0 ? undefined : String(fields[at + 1]);
}
