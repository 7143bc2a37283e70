CREATE TABLE idempay.transactions (
  id           bigint      NOT NULL PRIMARY KEY CHECK (id BETWEEN 100000000000001 AND 999999999999999),
  from_account text        COLLATE "C" NOT NULL CHECK (from_account <> ''),
  to_account   text        COLLATE "C" NOT NULL CHECK (to_account <> '' AND to_account <> from_account),
  amount       bigint      NOT NULL CHECK (amount > 0),    -- a count of ten-thousandths: exact, never a float
  status       text        NOT NULL CHECK (status IN
    ('PENDING', 'PROCESSING', 'ON_HOLD', 'FLAGGED', 'BLOCKED', 'COMPLETED', 'FAILED', 'CANCELLED')),
  version      integer     NOT NULL CHECK (version >= 1),  -- one more with each change of the row
  created_at   timestamptz NOT NULL
);

CREATE INDEX transactions_by_from_account ON idempay.transactions (from_account, id);
CREATE INDEX transactions_by_to_account ON idempay.transactions (to_account, id);

-- One row. Every create and delete moves it in its own commit and holds it until that commit: so ids rise in commit order
-- (a sequence would hand out ids that commit out of order), none is used twice, and a list tag computed at a version is
-- right for as long as the version stands.
CREATE TABLE idempay.transaction_list (
  only_row             boolean NOT NULL PRIMARY KEY CHECK (only_row),
  last_id              bigint  NOT NULL,
  version              bigint  NOT NULL,                   -- moved by every create and delete
  last_removal_version bigint  NOT NULL                    -- the version that the last delete moved to
) WITH (fillfactor = 50);

INSERT INTO idempay.transaction_list VALUES (true, 100000000000000, 0, 0);
