-- One durable row per payment: the unique key is what makes it exactly once (decisions P12).
CREATE TABLE idempay.payments (
  key            uuid        NOT NULL PRIMARY KEY,
  transaction_id text        NOT NULL UNIQUE CHECK (transaction_id ~ '^TXN[0-9]+$'),
  amount         numeric     NOT NULL CHECK (amount > 0),
  currency       text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  fingerprint    text        NOT NULL,
  processor      text        NOT NULL,
  state          text        NOT NULL CHECK (state IN ('PROCESSING', 'COMPLETED', 'DECLINED')),
  epoch          integer     NOT NULL CHECK (epoch >= 1),  -- fencing token: one more with each takeover
  owner          text        NOT NULL,
  lease_until    timestamptz NOT NULL,
  expires_at     timestamptz,                              -- how long a final outcome is repeated
  reason         text,
  claimed_at     timestamptz NOT NULL,
  settled_at     timestamptz,
  CHECK ((state = 'PROCESSING') = (settled_at IS NULL)),
  CHECK ((state = 'PROCESSING') = (expires_at IS NULL)),
  CHECK ((state = 'DECLINED') = (reason IS NOT NULL))
);

-- Only what is under way is in it, so it stays small however many payments there are.
CREATE INDEX payments_under_way ON idempay.payments (key) WHERE state = 'PROCESSING';
