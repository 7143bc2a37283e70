-- A list filtered by both accounts is one range of this index. It has both in one expression, so that only this index has the order
-- in which such a list is read (see `transaction-statements.ts`); no account holds a control character. Building it stops creates,
-- changes and deletes of transactions, a few seconds for a million rows; where that is too long, build it before the
-- upgrade as `docs/deployment.md` says, and this finds it there.
CREATE INDEX IF NOT EXISTS transactions_by_both_accounts
  ON idempay.transactions ((from_account || E'\n' || to_account), id);

-- How many transactions were ever removed, and the version that the removal before the last one moved to.
ALTER TABLE idempay.transaction_list
  ADD COLUMN removals bigint NOT NULL DEFAULT 0,
  ADD COLUMN previous_removal_version bigint NOT NULL DEFAULT 0;

-- The last removals: a list tag is then made anew only from the first removed id on. Slots are used again in turn, so the table
-- stays small. Each row names the version of the removal before it, so that a gap shows: a process of the version before
-- this one, running beside it, removes without writing here.
CREATE TABLE idempay.transaction_removals (
  slot             integer NOT NULL PRIMARY KEY,
  version          bigint  NOT NULL,                       -- the list version that this removal moved to
  previous_version bigint  NOT NULL,                       -- the same of the removal before it; 0: there was none
  id               bigint  NOT NULL,
  from_account     text    COLLATE "C" NOT NULL,
  to_account       text    COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
