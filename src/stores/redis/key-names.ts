import { TRANSACTION_CACHE } from '../../transactions/ports/transaction-cache.js';

/** Before every key of ours, so that a shared Redis stays tidy. */
const PREFIX = 'idempay:';

/**
 * The names of everything of one deployment in Redis (rule O5). The braces are the Cluster's hash tag: all keys of
 * one payment, or of one transaction, lie in one slot.
 */
export interface KeyNames {
  /** The channel on which the ends of watched locks are announced. The message is the lock's name. */
  readonly lockEnds: string;
  /** Written and deleted at once, to see whether the server takes writes. */
  readonly probe: string;
  payment(key: string): { readonly record: string; readonly lock: string };
  cached(id: number | string): { readonly entry: string; readonly fill: string; readonly marks: string };
  /** The last commits of each process in the database. */
  readonly lastCommits: string;
  /** The name of the transfer by which the deployment came here; the same for all copies of one folder. */
  readonly transfer: string;
  /** How much each process has served a client in the present minute. */
  requests(client: string): string;
  /** The samples of each process for the live view. */
  readonly samples: string;
  /** The last process that reached the database. */
  readonly databaseReach: string;
}

/**
 * `adopter`: the client that adopted the rows without credentials. Records from before name no client, or another reference's key,
 * so none of them counts any more. `transfer`: the name of the transfer that made the database. Copies of one folder have the same deployment
 * id, and no copy may answer with what another one has in its Redis.
 */
export function createKeyNames(
  deploymentId: string,
  { adopter, transfer }: { readonly adopter?: string | undefined; readonly transfer?: string | undefined } = {},
): KeyNames {
  const ofAllCopies = `${PREFIX}${deploymentId}:`;
  const prefix = transfer === undefined ? ofAllCopies : `${ofAllCopies}${transfer}:`;
  const ofPayments = adopter === undefined ? prefix : `${prefix}adopted:`;
  return {
    lockEnds: `${prefix}lock-ends`,
    probe: `${prefix}probe`,
    samples: `${prefix}samples`,
    databaseReach: `${prefix}database-reach`,
    lastCommits: `${prefix}last-commits`,
    transfer: `${ofAllCopies}transfer`,
    payment(key) {
      const record = `${ofPayments}{${key}}`;
      return { record, lock: `${record}:lock` };
    },
    cached(id) {
      const entry = `${prefix}{${TRANSACTION_CACHE}::${id}}`;
      return { entry, fill: `${entry}:fill`, marks: `${entry}:marks` };
    },
    requests: (client) => `${prefix}{requests:${client}}`,
  };
}
