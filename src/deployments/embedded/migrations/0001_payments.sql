-- The key records of spec 2.1. Time-ordered keys (UUIDv7) make every insert an append, so the table needs no rowid of its own.
CREATE TABLE idempotency_keys (
  key         TEXT    NOT NULL PRIMARY KEY CHECK (length(key) = 36),
  value       TEXT    NOT NULL,                            -- KEY GENERATED, then the transaction id or DECLINED
  fingerprint TEXT,                                        -- of the payment whose outcome the value is
  reason      TEXT,                                        -- of a decline
  expires_at  INTEGER NOT NULL                             -- ms since the epoch
) STRICT, WITHOUT ROWID;

-- One durable row per payment, kept whatever becomes of its key record (decisions P12).
CREATE TABLE payments (
  key            TEXT    NOT NULL PRIMARY KEY CHECK (length(key) = 36),
  transaction_id TEXT    NOT NULL UNIQUE CHECK (transaction_id GLOB 'TXN[0-9]*'),
  amount         TEXT    NOT NULL,                         -- canonical decimal text
  currency       TEXT    NOT NULL CHECK (length(currency) = 3),
  fingerprint    TEXT    NOT NULL,
  processor      TEXT    NOT NULL,
  state          TEXT    NOT NULL CHECK (state IN ('PROCESSING', 'COMPLETED', 'DECLINED')),
  epoch          INTEGER NOT NULL CHECK (epoch >= 1),      -- fencing token: one more with each takeover
  owner          TEXT    NOT NULL,
  lease_until    INTEGER NOT NULL,                         -- ms since the epoch, as all times here
  expires_at     INTEGER,                                  -- how long a final outcome is repeated
  reason         TEXT,
  claimed_at     INTEGER NOT NULL,
  settled_at     INTEGER,
  CHECK ((state = 'PROCESSING') = (settled_at IS NULL)),
  CHECK ((state = 'PROCESSING') = (expires_at IS NULL)),
  CHECK ((state = 'DECLINED') = (reason IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- Only what is under way is in it. In the order of the keys, which is that of time: it is listed and counted from one end, up to a limit.
CREATE INDEX payments_under_way ON payments (key) WHERE state = 'PROCESSING';
