-- A list filtered by both accounts is one range of this index; the row's id ends every index of SQLite.
CREATE INDEX transactions_by_both_accounts ON transactions (from_account, to_account);

-- How many transactions were ever removed, and the version that the removal before the last one moved to.
ALTER TABLE transaction_list ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transaction_list ADD COLUMN previous_removal_version INTEGER NOT NULL DEFAULT 0;

-- The last removals: a list tag is then made anew only from the first removed id on. Slots are used again in turn, so the table
-- stays small. Each row names the version of the removal before it, so that a gap shows, whatever left it.
CREATE TABLE transaction_removals (
  slot             INTEGER NOT NULL PRIMARY KEY,
  version          INTEGER NOT NULL,                       -- the list version that this removal moved to
  previous_version INTEGER NOT NULL,                       -- the same of the removal before it; 0: there was none
  id               INTEGER NOT NULL,
  from_account     TEXT    NOT NULL,
  to_account       TEXT    NOT NULL
) STRICT;
