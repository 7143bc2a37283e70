CREATE TABLE transactions (
  id           INTEGER NOT NULL PRIMARY KEY CHECK (id BETWEEN 100000000000001 AND 999999999999999),
  from_account TEXT    NOT NULL CHECK (from_account <> ''),
  to_account   TEXT    NOT NULL CHECK (to_account <> '' AND to_account <> from_account),
  amount       INTEGER NOT NULL CHECK (amount > 0),        -- a count of ten-thousandths: exact, never a float
  status       TEXT    NOT NULL CHECK (status IN
    ('PENDING', 'PROCESSING', 'ON_HOLD', 'FLAGGED', 'BLOCKED', 'COMPLETED', 'FAILED', 'CANCELLED')),
  version      INTEGER NOT NULL CHECK (version >= 1),      -- one more with each change of the row
  created_at   INTEGER NOT NULL                            -- ms since the epoch
) STRICT;

CREATE INDEX transactions_by_from_account ON transactions (from_account);
CREATE INDEX transactions_by_to_account ON transactions (to_account);

-- One row. Every create and delete moves it in its own commit, so ids rise in commit order, none is used twice (also
-- after a delete), and a list tag computed at a version is right for as long as the version stands.
CREATE TABLE transaction_list (
  only_row             INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  last_id              INTEGER NOT NULL,
  version              INTEGER NOT NULL,                   -- moved by every create and delete
  last_removal_version INTEGER NOT NULL                    -- the version that the last delete moved to
) STRICT;

INSERT INTO transaction_list VALUES (1, 100000000000000, 0, 0);
