-- Full stop: the schema of the first release.

-- 'idem' in ASCII: whose file this is. A start refuses a database that is not empty and has another id.
PRAGMA application_id = 0x6964656d;

-- One row. A file that `idempay backup` wrote has `is_backup` 1 until it is started: rows of keys below `look_up_before` may then
-- have been written after the copy and lost with the original, so their first claim asks the processor before it charges.
-- Keys of references have no time in them: for them the same is said until a moment of the time that was seen (`retention_hours`).
CREATE TABLE deployment (
  only_row                 INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  is_backup                INTEGER NOT NULL CHECK (is_backup IN (0, 1)),
  look_up_before           TEXT    NOT NULL CHECK (length(look_up_before) = 36),
  id                       TEXT    NOT NULL CHECK (length(id) = 16),  -- stays through restores: keys of references are computed with it
  look_up_references_until INTEGER NOT NULL,                          -- seen ms
  adopted_at               INTEGER NOT NULL,                          -- when rows were found to be lost last; ms since the epoch, 0: never
  processors               TEXT    NOT NULL,                          -- JSON: the names under which payments were claimed here (rule P14)
  processors_before_loss   TEXT,                                      -- JSON: those of the day before rows were lost; NULL: any is permitted
  lost_ms                  INTEGER,                                   -- how much time was lost then, at most; NULL: not known
  -- The client that what was written without credentials belongs to, and whose references are computed without a client; 'nobody' if it
  -- is to stay nobody's (`idempay adopt`). NULL: nothing was decided.
  adopter                  TEXT,
  -- The name of the transfer by which the deployment leaves this folder; no service starts on it then. NULL: it does not leave.
  transfer                 TEXT    CHECK (length(transfer) = 32),
  is_copied                INTEGER NOT NULL CHECK (is_copied IN (0, 1))  -- the transfer's target may have started
) STRICT;

INSERT INTO deployment VALUES (1, 0, '00000000-0000-0000-0000-000000000000', lower(hex(randomblob(8))), 0, 0, '[]', NULL, NULL, NULL, NULL, 0);

-- The key records of spec 2.1, apart from the payments because they are swept. Time-ordered keys (UUIDv7) make every insert an append, so the
-- table needs no rowid of its own. It has no index by expiry, which each key and each payment would write: the sweep goes through all records.
CREATE TABLE idempotency_keys (
  key         TEXT    NOT NULL PRIMARY KEY CHECK (length(key) = 36),
  value       TEXT    NOT NULL,                            -- KEY GENERATED, then the transaction id or DECLINED
  fingerprint TEXT,                                        -- of the payment whose outcome the value is
  reason      TEXT,                                        -- of a decline
  expires_at  INTEGER NOT NULL,                            -- ms since the epoch
  client      TEXT,                                        -- whose key it is (rule A5); NULL: everybody's
  reference   TEXT,                                        -- from which the key is computed (rule P18), with
  attempt     INTEGER                                      -- the attempt; NULL: it is computed from nothing
) STRICT, WITHOUT ROWID;

-- One durable row per payment, kept whatever becomes of its key record (rule P12).
CREATE TABLE payments (
  key             TEXT    NOT NULL PRIMARY KEY CHECK (length(key) = 36),
  transaction_id  TEXT    NOT NULL UNIQUE CHECK (transaction_id GLOB 'TXN[0-9]*'),
  amount          TEXT,                                    -- canonical decimal text; NULL where it was cancelled, as the next ones
  currency        TEXT    CHECK (length(currency) = 3),
  fingerprint     TEXT    NOT NULL,
  processor       TEXT,
  state           TEXT    NOT NULL CHECK (state IN ('PROCESSING', 'COMPLETED', 'DECLINED', 'CANCELLED')),
  epoch           INTEGER NOT NULL CHECK (epoch >= 1),     -- fencing token: one more with each takeover
  owner           TEXT    NOT NULL,
  lease_until     INTEGER NOT NULL,                        -- ms since the epoch, as all times here
  expires_at      INTEGER,                                 -- how long a final outcome is repeated
  reason          TEXT,
  claimed_at      INTEGER NOT NULL,
  settled_at      INTEGER,
  -- When recovery may take a payment that is PROCESSING: with the end of its lease, or later when it was given up unclear.
  recover_at      INTEGER NOT NULL,
  -- Why an operator resolved it; NULL where the processor's own answer settled it.
  resolution      TEXT,
  -- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while
  -- it is the row's epoch: whoever takes the payment over ends it with the same commit. A negative one says that nothing was sent for
  -- this row, and that an earlier row may have been lost, with a charge. 0 says that it was charged, and that nobody knows how much.
  unsent_epoch    INTEGER,
  -- `claimed_at` by the wall clock of the machine. The store's clock stands still while the machine is suspended, and may while
  -- the service is stopped; a charge is sent again only where both clocks say that it is recent enough.
  claimed_at_wall INTEGER NOT NULL,
  -- When it was claimed, an earlier row of its key may have been lost: what was charged may be another amount. NULL: no.
  claimed_after_loss INTEGER CHECK (claimed_after_loss = 1),
  settled_hour    INTEGER,                                 -- the hour of `retention_hours` in which it was settled
  client          TEXT,                                    -- whose key it is (rule A5); NULL: everybody's
  -- What became of the payment beyond one attempt that claims and settles it, a JSON array for its timeline
  -- (docs/engineering/decisions/0054): takeovers, attempts that were given up, what a takeover found out. NULL where there was nothing more,
  -- as of every ordinary payment. Bounded where it is appended to (`ledger-statements.ts`), and by no CHECK: a full list must not
  -- keep a payment from going on.
  events          TEXT,
  -- From which the key is computed, with the client (rule P18); NULL: from nothing.
  reference       TEXT,
  attempt         INTEGER CHECK (attempt BETWEEN 1 AND 99),
  -- What the charge is about, as the first claim had it (rule P19): a JSON object of description and metadata.
  content         TEXT,
  -- The processor called the payment pending, and expects its end then (rule P24). The time stays after the end: a row is pending while it
  -- is PROCESSING and has one. A pending row has a lease only while its outcome or its ending is written.
  pending_until   INTEGER,
  -- The scope of a cancellation that ends the payment, or has ended it: the whole order, or this attempt (rule P25).
  ending          TEXT    CHECK (ending IN ('order', 'attempt')),
  -- The processor's own name of the charge, of at most 255 characters. There is no CHECK, because a name must not keep a payment from
  -- ending.
  processor_id    TEXT,
  -- A row with the first of these gives money back, and all others are payments (rule P26): the key of the payment, the caller's name of this
  -- refund, its amount in minor units, and what the processor is told besides.
  refund_of        TEXT,
  refund_name      TEXT,
  refund_units     INTEGER CHECK (refund_units > 0),
  refund_reason    TEXT,
  refund_charge_id TEXT,
  -- The sum of a payment's refunds that are not declined, in minor units; NULL before the first one.
  refunded         INTEGER CHECK (refunded >= 0),
  CHECK ((reference IS NULL) = (attempt IS NULL)),
  CHECK ((refund_of IS NULL) = (refund_name IS NULL)),
  CHECK ((refund_of IS NULL) = (refund_units IS NULL)),
  CHECK ((state = 'CANCELLED') = (amount IS NULL)),
  CHECK ((state = 'CANCELLED') = (currency IS NULL)),
  CHECK ((state = 'CANCELLED') = (processor IS NULL)),
  CHECK ((state = 'PROCESSING') = (settled_at IS NULL)),
  CHECK ((state = 'PROCESSING') = (expires_at IS NULL)),
  CHECK ((state = 'DECLINED') = (reason IS NOT NULL)),
  CHECK (resolution IS NULL OR (state <> 'PROCESSING' AND length(resolution) BETWEEN 1 AND 1000))
) STRICT, WITHOUT ROWID;

-- The sources of payments that are not final, and after a blank the address to which the payer comes back. Every row has one size and is
-- written over, never removed, so that nothing of an erased source stays in the file (`payment-sources.ts`). A row whose key is dashes
-- holds nothing.
CREATE TABLE payment_sources (
  slot   INTEGER NOT NULL PRIMARY KEY,
  key    TEXT    NOT NULL CHECK (length(key) = 36),
  source TEXT    NOT NULL CHECK (length(source) = 1501)        -- with blanks at its end
) STRICT;

CREATE INDEX payment_sources_by_key ON payment_sources (key);

-- The index has the payments that are under way and not pending. Transaction ids begin with the time of the first claim, so it is listed
-- and counted from one end, up to a limit.
CREATE INDEX payments_under_way ON payments (transaction_id) WHERE state = 'PROCESSING' AND pending_until IS NULL;

-- What recovery may take, longest due first or latest due first.
CREATE INDEX payments_due ON payments (processor, recover_at) WHERE state = 'PROCESSING' AND pending_until IS NULL;

-- Pending payments, of which there may be very many, are in an index of their own, so that reads of the other payments do not pass over
-- them.
CREATE INDEX payments_pending ON payments (transaction_id) WHERE state = 'PROCESSING' AND pending_until IS NOT NULL;

-- The pending payments that recovery may ask about, longest due first.
CREATE INDEX payments_pending_due ON payments (processor, recover_at) WHERE state = 'PROCESSING' AND pending_until IS NOT NULL;

-- The few pending payments that an execution works on, or worked on when it died: a start ends their leases without reading all the others.
CREATE INDEX payments_pending_leased ON payments (lease_until)
  WHERE state = 'PROCESSING' AND pending_until IS NOT NULL AND lease_until > 0;

-- Declined payments are rare among all rows; completed ones are not, and are found by the index of transaction ids.
CREATE INDEX payments_declined ON payments (transaction_id) WHERE state = 'DECLINED';

CREATE INDEX payments_settled ON payments (settled_at, key) WHERE settled_at IS NOT NULL;

-- A client's list is one range of it.
CREATE INDEX payments_by_client ON payments (client, transaction_id) WHERE client IS NOT NULL;

-- The orders without a client, which a start with credentials looks for.
CREATE INDEX payments_without_client ON payments (transaction_id) WHERE client IS NULL AND reference IS NOT NULL;

-- The refunds of one payment, all refunds, and those that are final. Payments are in none of these indexes.
CREATE INDEX payments_by_refunded ON payments (refund_of, transaction_id) WHERE refund_of IS NOT NULL;
CREATE INDEX payments_refunds ON payments (transaction_id) WHERE refund_of IS NOT NULL;
CREATE INDEX payments_refunds_settled ON payments (settled_at, key) WHERE refund_of IS NOT NULL;

-- The attempts at one order.
CREATE INDEX payments_by_reference ON payments (reference, client, attempt) WHERE reference IS NOT NULL;

-- One row. Keys below `keys_before` are never claimed any more, so the rows of such keys may be removed.
CREATE TABLE payment_horizon (
  only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  keys_before TEXT    NOT NULL CHECK (length(keys_before) = 36),
  -- The latest settlement that was removed: a reader of the feed that has not passed it has missed some. NULL: none was.
  removed_until INTEGER
) STRICT;

INSERT INTO payment_horizon VALUES (1, '00000000-0000-0000-0000-000000000000', NULL);

-- The incarnations of the feed of settlements (docs/engineering/decisions/0084): another one begins when rows may be lost. A reader of an
-- earlier one begins again before the first beginning that it has not seen.
CREATE TABLE settlement_incarnations (
  number      INTEGER NOT NULL PRIMARY KEY,
  incarnation TEXT    NOT NULL UNIQUE CHECK (length(incarnation) = 16),
  began_at    INTEGER NOT NULL             -- ms since the epoch
) STRICT;

INSERT INTO settlement_incarnations VALUES (1, lower(hex(randomblob(8))), CAST(unixepoch('subsec') * 1000 AS INTEGER));

-- How far the settlements were delivered to each endpoint of `WEBHOOKS_FILE`, and by whom (docs/engineering/decisions/0085). A row whose endpoint
-- is in no file any more stays, because a file may be wrong for a while.
CREATE TABLE webhook_endpoints (
  name        TEXT    NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  client      TEXT,                        -- only settlements of this client; NULL: of all
  stopped_by  TEXT    CHECK (stopped_by IN ('receiver', 'operator')),  -- NULL: it is served
  incarnation TEXT    NOT NULL,            -- everything up to this position of the feed was taken, or is set aside
  at_us       INTEGER NOT NULL,
  key         TEXT    CHECK (length(key) = 36),  -- NULL: before all settlements of this microsecond
  owner       TEXT,                        -- the run that serves it; NULL: none
  lease_until INTEGER NOT NULL             -- ms since the epoch, as all times here
) STRICT, WITHOUT ROWID;

-- Settlements that an endpoint refused again and again while it took others.
CREATE TABLE webhook_set_aside (
  endpoint     TEXT    NOT NULL,
  key          TEXT    NOT NULL CHECK (length(key) = 36),
  cause        TEXT    NOT NULL,
  set_aside_at INTEGER NOT NULL,
  next_try_at  INTEGER,                    -- NULL: it is only kept
  PRIMARY KEY (endpoint, key)
) STRICT, WITHOUT ROWID;

-- Time as running processes saw it pass, by their monotonic clocks; what is removed is judged by it and by no wall clock
-- (docs/engineering/decisions/0017). In rows of about an hour, the last of which grows. Its first one begins here.
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

-- One row, which every commit writes: the number of the commit, the store's time then, and how many records
-- `idempotency_keys` has (a count of the table would hold up a start by seconds for each ten million). `lock.sqlite` keeps
-- the first three as well, so that a start notices a copy of this file that lacks commits (docs/engineering/decisions/0071).
CREATE TABLE last_commit (
  only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  incarnation TEXT    NOT NULL,             -- another one after each restore
  number      INTEGER NOT NULL,             -- 1: nothing was written yet
  clock_ms    INTEGER NOT NULL,             -- ms since the epoch; the store's clock never runs back behind it
  key_records INTEGER NOT NULL,
  adopted     TEXT                          -- the incarnation before, in the commit that gives another one
) STRICT;

INSERT INTO last_commit VALUES (1, lower(hex(randomblob(16))), 1, 0, 0, NULL);

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

-- A list filtered by one account, or by both, is one range of its index; the row's id ends every index of SQLite.
CREATE INDEX transactions_by_from_account ON transactions (from_account);
CREATE INDEX transactions_by_to_account ON transactions (to_account);
CREATE INDEX transactions_by_both_accounts ON transactions (from_account, to_account);

-- One row. Every create and delete moves it in its own commit, so ids rise in commit order, none is used twice (also
-- after a delete), and a list tag computed at a version is right for as long as the version stands.
CREATE TABLE transaction_list (
  only_row                 INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  last_id                  INTEGER NOT NULL,
  version                  INTEGER NOT NULL,               -- moved by every create and delete
  last_removal_version     INTEGER NOT NULL,               -- the version that the last delete moved to
  removals                 INTEGER NOT NULL,               -- how many transactions were ever removed
  previous_removal_version INTEGER NOT NULL                -- the version that the removal before the last one moved to
) STRICT;

INSERT INTO transaction_list VALUES (1, 100000000000000, 0, 0, 0, 0);

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

-- The clients' own keys of creates, each in the commit of its rows. Ids of one create follow each other, and a repeat brings the rows
-- themselves: so the first id and the time are the whole result. Removed when it has expired.
CREATE TABLE creation_keys (
  client      TEXT    NOT NULL,                            -- whose key it is; '': nobody's, without credentials
  endpoint    TEXT    NOT NULL,                            -- one, or batch
  key         TEXT    NOT NULL CHECK (length(key) BETWEEN 1 AND 64),
  fingerprint TEXT    NOT NULL,                            -- of the rows
  first_id    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,                            -- ms since the epoch
  expires_at  INTEGER NOT NULL,                            -- ms since the epoch
  PRIMARY KEY (client, endpoint, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX creation_keys_by_end ON creation_keys (expires_at);
