-- Time as running processes saw it pass, by their monotonic clocks; what is removed is judged by it and by no wall clock
-- (docs/decisions/0017). In rows of about an hour, the last of which grows. Its first one begins here.
CREATE TABLE retention_hours (
  hour          INTEGER NOT NULL PRIMARY KEY CHECK (hour >= 1),
  from_ms       INTEGER NOT NULL,            -- seen since this table was made, at the beginning of the hour
  until_ms      INTEGER NOT NULL CHECK (until_ms >= from_ms),
  lowest_key_ms INTEGER NOT NULL,            -- no key was generated in it with a lower time; ms since the epoch
  clock_ms      INTEGER NOT NULL,            -- what the wall clock read last; ms since the epoch
  unseen_ms     INTEGER NOT NULL DEFAULT 0,  -- by how much the wall clock went on that no process saw
  confirmed     INTEGER NOT NULL DEFAULT 0 CHECK (confirmed IN (0, 1))  -- an operator says that this time did pass
) STRICT;

INSERT INTO retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms)
VALUES (1, 0, 0, CAST(unixepoch('subsec') * 1000 AS INTEGER), CAST(unixepoch('subsec') * 1000 AS INTEGER));

-- The hour in which a final payment was settled; 0 for those of before.
ALTER TABLE payments ADD COLUMN settled_hour INTEGER NOT NULL DEFAULT 0;

-- One row, which every commit writes: the number of the commit, the store's time then, and how many records
-- `idempotency_keys` has (a count of the table would hold up a start by seconds for each ten million). `lock.sqlite` keeps
-- the first three as well, so that a start notices a copy of this file that lacks commits (docs/decisions/0071).
CREATE TABLE last_commit (
  only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  incarnation TEXT    NOT NULL,             -- another one after each restore
  number      INTEGER NOT NULL,             -- 1: nothing was written yet
  clock_ms    INTEGER NOT NULL,             -- ms since the epoch; the store's clock never runs back behind it
  key_records INTEGER NOT NULL,
  adopted     TEXT                          -- the incarnation before, in the commit that gives another one
) STRICT;

INSERT INTO last_commit SELECT 1, lower(hex(randomblob(16))), 1, 0, count(*), NULL FROM idempotency_keys;
