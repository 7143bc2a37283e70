-- Additive: a version that does not know the table uses the cache as before, and notices no master that comes back.
-- One row: the masters of Redis that the cache is in, by their replication ids, and a number that rises with each change of them. An
-- entry counts in its own epoch only.
CREATE TABLE idempay.cache_epoch (
  only_row boolean NOT NULL PRIMARY KEY CHECK (only_row),
  epoch    bigint  NOT NULL CHECK (epoch >= 0),
  masters  text[]  NOT NULL
);

INSERT INTO idempay.cache_epoch VALUES (true, 0, '{}');

-- The present epoch if all these masters are in it, else a new one of them. It waits for every change that has asked for the epoch
-- (`is_cache_epoch`) and is not committed yet: so what is read and cached in the new epoch has all changes of the one before.
CREATE FUNCTION idempay.cache_epoch_of(seen text[]) RETURNS SETOF idempay.cache_epoch LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM idempay.cache_epoch WHERE masters @> seen) THEN
    PERFORM pg_advisory_xact_lock(4242017002);
    UPDATE idempay.cache_epoch SET epoch = epoch + 1, masters = seen WHERE NOT masters @> seen;
  END IF;
  RETURN QUERY SELECT * FROM idempay.cache_epoch;
END $$;

-- Whether this is the present epoch, which stays so until the statement's commit. NULL: it does not matter. Volatile, so that it sees
-- what was committed before it got the lock. The lock is in memory only: nothing is written for it.
CREATE FUNCTION idempay.is_cache_epoch(wanted bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF wanted IS NULL THEN
    RETURN true;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(4242017002);
  RETURN (SELECT epoch = wanted FROM idempay.cache_epoch);
END $$;
