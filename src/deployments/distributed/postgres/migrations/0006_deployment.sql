-- One row: which deployment this is, and on which database server it was last seen.
CREATE TABLE idempay.deployment (
  only_row          boolean NOT NULL PRIMARY KEY CHECK (only_row),
  -- Stays through failover and restore: all names in Redis begin with it.
  id                text    NOT NULL CHECK (id ~ '^[0-9a-f]{16}$'),
  -- The server as it was last seen; NULL: not yet.
  system_identifier text,
  database_oid      oid,
  timeline          text,
  -- Another one each time the server is another, or its log is shorter than it was: restores may repeat a timeline's number.
  incarnation       text    NOT NULL CHECK (incarnation ~ '^[0-9a-f]{16}$'),
  -- Rows of keys below it may have been lost: their first claim asks the processor before it charges.
  look_up_before    uuid    NOT NULL
);

-- The last 16 digits of a random UUID: 62 random bits.
INSERT INTO idempay.deployment (only_row, id, incarnation, look_up_before)
VALUES (true, right(replace(gen_random_uuid()::text, '-', ''), 16), right(replace(gen_random_uuid()::text, '-', ''), 16),
  '00000000-0000-0000-0000-000000000000');

-- The server's timeline, which a promotion and a point-in-time recovery raise. '' where a provider does not permit the
-- question: then only the position in the log, or another server, shows that the database was replaced.
CREATE FUNCTION idempay.timeline() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN left(pg_walfile_name(pg_current_wal_flush_lsn()), 8);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;

-- Bytes of log on disk since the beginning of the server's life; 0 where a provider does not permit the question.
CREATE FUNCTION idempay.log_position() RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0');
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN 0;
END $$;

CREATE FUNCTION idempay.system_identifier() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;
