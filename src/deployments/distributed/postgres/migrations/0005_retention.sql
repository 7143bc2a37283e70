-- Time as running processes saw it pass, by their monotonic clocks; what is removed is judged by it and by no wall clock
-- (docs/decisions/0017). In rows of about an hour, the last of which grows. Its first one begins here.
CREATE TABLE idempay.retention_hours (
  hour          integer NOT NULL PRIMARY KEY CHECK (hour >= 1),
  from_ms       bigint  NOT NULL,                -- seen since this table was made, at the beginning of the hour
  until_ms      bigint  NOT NULL CHECK (until_ms >= from_ms),
  lowest_key_ms bigint  NOT NULL,                -- no key was generated in it with a lower time; ms since the epoch
  clock_ms      bigint  NOT NULL,                -- what the database's clock read last; ms since the epoch
  unseen_ms     bigint  NOT NULL DEFAULT 0,      -- by how much that clock went on that no process saw
  confirmed     boolean NOT NULL DEFAULT false   -- an operator says that this time did pass
);

INSERT INTO idempay.retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms)
SELECT 1, 0, 0, now_ms, now_ms FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS read;

-- The hour in which a final payment was settled; 0 for those of before. NULL where a process of the version before settled
-- it since: its age begins when it is looked at.
ALTER TABLE idempay.payments ADD COLUMN settled_hour integer DEFAULT 0;
ALTER TABLE idempay.payments ALTER COLUMN settled_hour DROP DEFAULT;
UPDATE idempay.payments SET settled_hour = NULL WHERE state = 'PROCESSING';
