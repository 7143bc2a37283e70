import { Client, type ClientConfig } from 'pg';
import { reasonOf } from '../../../platform/faults.js';
import { CannotOpen } from '../../shared/deployment.js';
import { readDatabaseUrl, withoutAuthorities } from './url.js';

const CONNECT_TIMEOUT_MS = 2_000;

/** The parts of `DATABASE_URL`. The text between them stays as it is, because the driver reads it. */
const FORM = /^(postgres(?:ql)?:\/\/)(?:([^/?#:@]*)(?::([^/?#]*))?@)?([^/?#@]*)(.*)$/;

/**
 * The address of the database as new connections use it. With several hosts a connection that fails, or leads to a standby, makes the next
 * one go to the next host, until one is the primary.
 */
export class DatabaseAddress {
  private parts: readonly string[];
  private hosts: readonly string[];
  private turn = 0;

  /**
   * `url` was accepted by `readDatabaseUrl`. `authorities`: the PEM certificates of the file that `withAuthorities` named in it. They are kept
   * here, because the driver would read the file for each connection, and throw while the file is missing.
   */
  constructor(
    url: string,
    private authorities?: string,
  ) {
    this.parts = partsOf(url);
    this.hosts = (this.parts[3] ?? '').split(',');
  }

  /** The host whose turn it is, with its port. */
  get host(): string {
    return this.hosts[this.turn] ?? '';
  }

  /** The URL of the next connection. */
  get url(): string {
    const [scheme, user, password, , rest] = this.parts;
    const login = user === '' && password === '' ? '' : `${user}${password === '' ? '' : `:${password}`}@`;
    return `${scheme}${login}${this.host}${rest}`;
  }

  get hostCount(): number {
    return this.hosts.length;
  }

  /** This host is not the primary, or is down. A late failure of a host that was left already changes nothing. */
  leave(host: string): void {
    if (host === this.host) this.turn = (this.turn + 1) % this.hosts.length;
  }

  /** Takes the password of this URL. Returns false if anything else differs, and changes nothing then. */
  take(url: string): boolean {
    if (readDatabaseUrl(url) === undefined) return false;
    const parts = partsOf(url);
    if (parts.some((part, index) => index !== PASSWORD && part !== this.parts[index])) return false;
    this.parts = parts;
    return true;
  }

  /** Takes the new content of the file of authorities, for new connections. Returns false if the address has none. */
  takeAuthorities(text: string): boolean {
    if (this.authorities === undefined) return false;
    this.authorities = text;
    return true;
  }

  /** A client of one connection, to the host whose turn it is. */
  client(config: ClientConfig = {}): AddressedClient {
    return new (this.clientClass())(config);
  }

  /** The class of a pool's clients, each of which connects to the present address. */
  clientClass(): new (config?: ClientConfig) => AddressedClient {
    const address = this;
    return class extends AddressedClient {
      constructor(config?: ClientConfig) {
        const { url, authorities: ca } = address;
        const connectionString = ca === undefined ? url : withoutAuthorities(url);
        super({ ...config, connectionString }, address, address.host);
        // The driver prefers the URL to its option `ssl`, and the URL can only name a file.
        if (ca !== undefined) Object.assign(this.ssl, { ca });
      }
    };
  }
}

const PASSWORD = 2;

/** Tells its address if it does not get through. */
export class AddressedClient extends Client {
  constructor(
    config: ClientConfig,
    private readonly address: DatabaseAddress,
    private readonly at: string,
  ) {
    super(config);
    // Without a listener an error would end the process. The pool takes its own listener off a connection while it is verified or checked
    // out, and adds it only when `connect` has called back, which is later than the server's next message if both came in one piece. The
    // statements that were sent over the connection fail by themselves.
    this.on('error', () => {});
  }

  override connect(): Promise<Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<Client> | undefined {
    const connecting = super.connect().catch((error: unknown) => {
      this.leave();
      throw error;
    }) as Promise<Client>;
    if (!callback) return connecting;
    connecting.then(() => (callback as (error?: Error) => void)(), callback);
    return undefined;
  }

  /** It is not the primary's. */
  leave(): void {
    this.address.leave(this.at);
  }
}

/**
 * For a program that connects once: the URL of the host that is the primary. If there is none, that of the first, so that its failure is
 * reported. With one host it asks nothing. Throws CannotOpen if two servers are primaries, because the program must not change a stale one.
 * If `isEachAsked` is true, it also throws CannotOpen if a host cannot be asked, because that one may be the primary.
 */
export async function primaryUrl(url: string, isEachAsked = false): Promise<string> {
  const address = new DatabaseAddress(url);
  if (address.hostCount === 1) return url;
  const first = address.url;
  /** Several names may lead to one server. */
  const primaries = new Map<string, DatabaseHost>();
  for (let asked = 0; asked < address.hostCount; asked += 1) {
    const { host, url: hostUrl } = address;
    const start = await startOfPrimary(hostUrl);
    if (start instanceof Error && isEachAsked) {
      throw new CannotOpen(
        `DATABASE_URL: ${host} cannot be asked (${reasonOf(start)}), and may be the primary by now. Nothing was changed. Start that server, correct the reason, or name only the others if it is gone.`,
        { cause: start },
      );
    }
    if (typeof start === 'string' && start !== STANDBY && !primaries.has(start)) {
      primaries.set(start, { host, url: hostUrl });
    }
    address.leave(host);
  }
  const [primary, other] = primaries.values();
  if (primary && other) {
    throw new CannotOpen(
      `DATABASE_URL: ${primary.host} and ${other.host} are both primaries, and nothing was changed. Stop the one that a failover has replaced, or name only the other one.`,
    );
  }
  return primary?.url ?? first;
}

type DatabaseHost = Pick<DatabaseAddress, 'host' | 'url'>;

/** This word takes the place of the start if the server is no primary. */
const STANDBY = 'standby';

/** The time at which the primary started, to the microsecond, or STANDBY. Returns an error if the server cannot be asked. */
async function startOfPrimary(url: string): Promise<string | Error> {
  const limits = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, query_timeout: CONNECT_TIMEOUT_MS };
  const client = new Client({ connectionString: url, ...limits, application_name: 'idempay-look' });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ standby: boolean; start: string }>(
      'SELECT pg_is_in_recovery() AS standby, extract(epoch FROM pg_postmaster_start_time())::text AS start',
    );
    return rows[0]?.standby === false ? rows[0].start : STANDBY;
  } catch (error) {
    return error as Error;
  } finally {
    client.end().catch(() => {});
  }
}

function partsOf(url: string): readonly string[] {
  const [, ...parts] = FORM.exec(url) ?? [];
  return parts.map((part) => part ?? '');
}
