-- One row: which deployment this is, and on which database server it was last seen.
CREATE TABLE idempay.deployment (
  only_row          boolean NOT NULL PRIMARY KEY CHECK (only_row),
  -- Stays through failover and restore: all names in Redis begin with it.
  id                text    NOT NULL CHECK (id ~ '^[0-9a-f]{16}$'),
  -- The server as it was last seen; NULL: not yet.
  system_identifier text,
  database_oid      oid,
  timeline          text,
  -- Of this table; a dump that is restored makes it anew, also in the same database.
  table_oid         oid,
  -- The start of the server for which it was last found that no commit is lost. A server that was restored has another start.
  checked_start     timestamptz,
  -- One more, and another incarnation, each time the newest rows may be lost. Two restores of one backup may reach the same generation.
  generation        integer NOT NULL,
  incarnation       text    NOT NULL CHECK (incarnation ~ '^[0-9a-f]{16}$'),
  -- Rows of keys below it may have been lost: their first claim asks the processor before it charges.
  look_up_before    uuid    NOT NULL
);

-- The last 16 digits of a random UUID: 62 random bits.
INSERT INTO idempay.deployment (only_row, id, generation, incarnation, look_up_before)
VALUES (true, right(replace(gen_random_uuid()::text, '-', ''), 16), 0, right(replace(gen_random_uuid()::text, '-', ''), 16),
  '00000000-0000-0000-0000-000000000000');

-- The server's timeline, which a promotion and a point-in-time recovery raise. '' where a provider does not permit the
-- question: then a lost commit, or another server, shows that the database was replaced.
CREATE FUNCTION idempay.timeline() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN left(pg_walfile_name(pg_current_wal_flush_lsn()), 8);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;

CREATE FUNCTION idempay.system_identifier() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;
