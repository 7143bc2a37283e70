import { StoreUnavailable } from '../../../platform/faults.js';
import type { CacheEpoch, CacheEpochs } from '../../shared/cache-epochs.js';
import type { Postgres, Statement } from '../connection/postgres.js';

const OF: Statement = {
  name: 'cache_epoch_of',
  text: 'SELECT epoch::float8 AS epoch, masters FROM idempay.cache_epoch_of($1::text[])',
};

const LATEST: Statement = {
  name: 'cache_epoch',
  text: 'SELECT epoch::float8 AS epoch, masters FROM idempay.cache_epoch',
};

/** For changes that are protected by a write mark: they do nothing in another epoch than their mark's. */
export const inCacheEpoch = (parameter: string): string => `idempay.is_cache_epoch(${parameter}::bigint)`;

export function createPostgresCacheEpochs(database: Postgres): CacheEpochs {
  return {
    of: async (masters) => only(await database.writeHoweverLate<CacheRow>(OF, [masters])),
    latest: async () => only(await database.read<CacheRow>(LATEST)),
  };
}

interface CacheRow {
  epoch: number;
  masters: string[];
}

function only([row]: readonly CacheRow[]): CacheEpoch {
  if (!row) throw new StoreUnavailable('unchanged', 'the table idempay.cache_epoch is empty');
  return row;
}
