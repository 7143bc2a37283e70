-- Full stop: the schema of the first release.

-- The files of this folder that were applied. A process writes nothing to a schema with a full stop that it does not know.
CREATE TABLE idempay.migrations (
  name       text        COLLATE "C" NOT NULL PRIMARY KEY,
  mode       text        NOT NULL CHECK (mode IN ('full stop', 'side by side')),
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- One row: which deployment this is, and on which database server it was last seen.
CREATE TABLE idempay.deployment (
  only_row          boolean NOT NULL PRIMARY KEY CHECK (only_row),
  -- Stays through failover and restore: all names in Redis begin with it.
  id                text    NOT NULL CHECK (id ~ '^[0-9a-f]{16}$'),
  -- The server as it was last seen; NULL: not yet.
  system_identifier text,
  database_oid      oid,
  timeline          text,
  -- Of this table; a dump that is restored makes it anew, also in the same database.
  table_oid         oid,
  -- The start of the server for which it was last found that no commit is lost. A server that was restored has another start.
  checked_start     timestamptz,
  -- One more, and another incarnation, each time the newest rows may be lost. Two restores of one backup may reach the same generation.
  generation        integer NOT NULL,
  incarnation       text    NOT NULL CHECK (incarnation ~ '^[0-9a-f]{16}$'),
  -- Rows of keys below it may have been lost: their first claim asks the processor before it charges.
  look_up_before    uuid    NOT NULL,
  -- Keys of references have no time in them: for them the same is said until a moment of the time that was seen (`retention_hours`, ms).
  look_up_references_until bigint NOT NULL DEFAULT 0,
  adopted_at        timestamptz,                           -- when rows were found to be lost last; NULL: never
  -- The names of processors under which payments were claimed here. The simulated one and others are kept apart (rule P14).
  processors        text[]  NOT NULL DEFAULT '{}',
  -- Those of the day before rows were lost: only they can tell what became of a lost row. NULL: any is permitted.
  processors_before_loss text[],
  -- How much time was lost at `adopted_at`, at most: since the claim of the newest row that is left. NULL: not known.
  lost_ms           double precision,
  -- The client that what was written without credentials belongs to, and whose references are computed without a client; 'nobody' if it
  -- is to stay nobody's (`idempay adopt`). Before a decision 'everybody' if the first order was paid without credentials, and 'clients' if it
  -- was paid with them (docs/engineering/decisions/0080). NULL: neither.
  adopter           text
);

-- The last 16 digits of a random UUID: 62 random bits.
INSERT INTO idempay.deployment (only_row, id, generation, incarnation, look_up_before)
VALUES (true, right(replace(gen_random_uuid()::text, '-', ''), 16), 0, right(replace(gen_random_uuid()::text, '-', ''), 16),
  '00000000-0000-0000-0000-000000000000');

-- One row if `idempay transfer` made this database, else none. `name` is the transfer's own, which is in the folder and in Redis as well.
-- A service starts on a state of COMPLETE, which it makes STARTED, and on STARTED. COMPLETE becomes either that or GIVEN UP.
CREATE TABLE idempay.transfer (
  only_row boolean NOT NULL PRIMARY KEY CHECK (only_row),
  name     text    NOT NULL CHECK (name ~ '^[0-9a-f]{32}$'),
  state    text    NOT NULL CHECK (state IN ('COPYING', 'COMPLETE', 'STARTED', 'GIVEN UP'))
);

-- The server's timeline, which a promotion and a point-in-time recovery raise. '' where a provider does not permit the
-- question: then a lost commit, or another server, shows that the database was replaced.
CREATE FUNCTION idempay.timeline() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN left(pg_walfile_name(pg_current_wal_flush_lsn()), 8);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;

CREATE FUNCTION idempay.system_identifier() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN '';
END $$;

-- One durable row per payment: the unique key is what makes it exactly once (rule P12).
CREATE TABLE idempay.payments (
  key            uuid        NOT NULL PRIMARY KEY,
  transaction_id text        COLLATE "C" NOT NULL UNIQUE CHECK (transaction_id ~ '^TXN[0-9]+$'),
  amount         numeric     CHECK (amount > 0),           -- NULL where it was cancelled, as the next ones
  currency       text        CHECK (currency ~ '^[A-Z]{3}$'),
  fingerprint    text        NOT NULL,
  processor      text,
  state          text        NOT NULL CHECK (state IN ('PROCESSING', 'COMPLETED', 'DECLINED', 'CANCELLED')),
  epoch          integer     NOT NULL CHECK (epoch >= 1),  -- fencing token: one more with each takeover
  owner          text        NOT NULL,
  lease_until    timestamptz NOT NULL,
  expires_at     timestamptz,                              -- how long a final outcome is repeated
  reason         text,
  claimed_at     timestamptz NOT NULL,
  settled_at     timestamptz,
  -- When recovery may take a payment that is PROCESSING: with the end of its lease, or later when it was given up unclear.
  recover_at     timestamptz NOT NULL,
  -- Why an operator resolved it; NULL where the processor's own answer settled it.
  resolution     text,
  -- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while
  -- it is the row's epoch: whoever takes the payment over ends it with the same commit. A negative one says that nothing was sent for
  -- this row, and that an earlier row may have been lost, with a charge. 0 says that it was charged, and that nobody knows how much.
  unsent_epoch   integer,
  -- Of the deployment when the row's epoch began. `unsent_epoch` counts only while it is the deployment's: a database that lost
  -- its newest rows may have lost a takeover that sent the charge.
  generation     integer     NOT NULL,
  -- When it was claimed, an earlier row of its key may have been lost: what was charged may be another amount. NULL: no.
  claimed_after_loss boolean,
  settled_hour   integer,                                  -- the hour of `retention_hours` in which it was settled
  client         text,                                     -- whose key it is (rule A5); NULL: everybody's
  -- What became of the payment beyond one attempt that claims and settles it, an array for its timeline
  -- (docs/engineering/decisions/0054): takeovers, attempts that were given up, what a takeover found out. NULL where there was nothing more,
  -- as of every ordinary payment. Bounded by `with_event`, and by no CHECK: a full list must not keep a payment from going on.
  events         jsonb,
  -- From which the key is computed, with the client (rule P18); NULL: from nothing.
  reference      text        COLLATE "C",
  attempt        integer     CHECK (attempt BETWEEN 1 AND 99),
  -- The content of the charge, as the first claim had it (rule P19): the source, and after a blank the address to which the payer comes
  -- back; and a JSON object of description and metadata, as text, so that nothing of it changes. The source and the address are erased in
  -- the commit that makes the row final.
  source         text        CHECK (source IS NULL OR state = 'PROCESSING'),
  content        text,
  -- The processor called the payment pending, and expects its end then (rule P24). The time stays after the end: a row is pending while it
  -- is PROCESSING and has one. A pending row has a lease only while its outcome or its ending is written.
  pending_until  timestamptz,
  -- The scope of a cancellation that ends the payment, or has ended it: the whole order, or this attempt (rule P25).
  ending         text        CHECK (ending IN ('order', 'attempt')),
  -- The processor's own name of the charge, of at most 255 characters. There is no CHECK, because a name must not keep a batch of payments
  -- from ending.
  processor_id   text,
  -- A row with the first of these gives money back, and all others are payments (rule P26): the key of the payment, the caller's name of this
  -- refund, its amount in minor units, and what the processor is told besides.
  refund_of      uuid,
  refund_name    text        COLLATE "C",
  refund_units   bigint      CHECK (refund_units > 0),
  refund_reason  text,
  refund_charge_id text,
  -- The sum of a payment's refunds that are not declined, in minor units; NULL before the first one.
  refunded       bigint      CHECK (refunded >= 0),
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
);

-- The index has the payments that are under way and not pending, so it stays small however many payments there are. Transaction ids begin
-- with the time of the first claim.
CREATE INDEX payments_under_way ON idempay.payments (transaction_id) WHERE state = 'PROCESSING' AND pending_until IS NULL;

-- What recovery may take, longest due first or latest due first. Its condition means PROCESSING as well, in words that only
-- recovery's statement has: so that statement cannot take the other index of what is under way, and no other can take this one.
CREATE INDEX payments_due ON idempay.payments (processor, recover_at) WHERE expires_at IS NULL AND pending_until IS NULL;

-- Pending payments, of which there may be very many, are in an index of their own, so that reads of the other payments do not pass over
-- them.
CREATE INDEX payments_pending ON idempay.payments (transaction_id) WHERE state = 'PROCESSING' AND pending_until IS NOT NULL;

-- The pending payments that recovery may ask about, longest due first.
CREATE INDEX payments_pending_due ON idempay.payments (processor, recover_at) WHERE expires_at IS NULL AND pending_until IS NOT NULL;

-- Declined payments are rare among all rows; completed ones are not, and are found by the index of transaction ids.
CREATE INDEX payments_declined ON idempay.payments (transaction_id) WHERE state = 'DECLINED';

CREATE INDEX payments_settled ON idempay.payments (settled_at, key) WHERE settled_at IS NOT NULL;

-- A client's list is one range of it.
CREATE INDEX payments_by_client ON idempay.payments (client, transaction_id) WHERE client IS NOT NULL;

-- The orders without a client, which a start with credentials looks for.
CREATE INDEX payments_without_client ON idempay.payments (transaction_id) WHERE client IS NULL AND reference IS NOT NULL;

-- The refunds of one payment, all refunds, and those that are final. Payments are in none of these indexes. CHECKs make their conditions
-- equal; the words of each are in the statements that it is for, so that no other statement is planned by it.
CREATE INDEX payments_by_refunded ON idempay.payments (refund_of, transaction_id) WHERE refund_of IS NOT NULL;
CREATE INDEX payments_refunds ON idempay.payments (transaction_id) WHERE refund_units IS NOT NULL;
CREATE INDEX payments_refunds_settled ON idempay.payments (settled_at, key) WHERE refund_name IS NOT NULL;

-- The attempts at one order.
CREATE INDEX payments_by_reference ON idempay.payments (reference, client, attempt) WHERE reference IS NOT NULL;

-- Appends to `events`: the first 8 and the last 40 are kept, and between them an element counts those that were left out. A member
-- that is null is not kept. In SQL and not in PL/pgSQL, so that it becomes a part of the statement that calls it.
CREATE FUNCTION idempay.with_event(events jsonb, event jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN events IS NULL THEN '[]'
    WHEN jsonb_array_length(events) < 48 THEN events
    WHEN jsonb_array_length(events) = 48 THEN jsonb_set(events, '{8}', '{"omitted": 1}')
    ELSE jsonb_set(events - 9, '{8,omitted}', to_jsonb((events #>> '{8,omitted}')::integer + 1))
  END || jsonb_strip_nulls(event)
$$;

-- One row. Keys below `keys_before` are never claimed any more. Rows are removed below `removable_before` only: an older
-- value of `keys_before`, which no claim that still runs can have missed.
CREATE TABLE idempay.payment_horizon (
  only_row         boolean     NOT NULL PRIMARY KEY CHECK (only_row),
  keys_before      uuid        NOT NULL,
  removable_before uuid        NOT NULL CHECK (removable_before <= keys_before),
  seen_at          timestamptz,                            -- `keys_before` was visible to everybody; NULL: not known yet
  -- The latest settlement that was removed: a reader of the feed that has not passed it has missed some. NULL: none was.
  removed_until    timestamptz
);

INSERT INTO idempay.payment_horizon (only_row, keys_before, removable_before, seen_at)
VALUES (true, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', now());

-- The incarnations of the feed of settlements (docs/engineering/decisions/0084): another one begins when rows may be lost, and when the
-- clock of the server went back. A reader of an earlier one begins again before the first beginning that it has not seen.
CREATE TABLE idempay.settlement_incarnations (
  number      integer     NOT NULL PRIMARY KEY,
  incarnation text        NOT NULL UNIQUE CHECK (incarnation ~ '^[0-9a-f]{16}$'),
  began_at    timestamptz NOT NULL
);

INSERT INTO idempay.settlement_incarnations VALUES (1, right(replace(gen_random_uuid()::text, '-', ''), 16), now());

-- How far the settlements were delivered to each endpoint of `WEBHOOKS_FILE`, and by whom (docs/engineering/decisions/0085). A row whose endpoint
-- is in no file any more stays, because a file may be wrong for a while.
CREATE TABLE idempay.webhook_endpoints (
  name        text        COLLATE "C" NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  client      text        COLLATE "C",               -- only settlements of this client; NULL: of all
  stopped_by  text        CHECK (stopped_by IN ('receiver', 'operator')),  -- NULL: it is served
  incarnation text        NOT NULL,                  -- everything up to this position of the feed was taken, or is set aside
  at_us       bigint      NOT NULL,
  key         uuid,                                  -- NULL: before all settlements of this microsecond
  owner       text,                                  -- the run that serves it; NULL: none
  lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Settlements that an endpoint refused again and again while it took others.
CREATE TABLE idempay.webhook_set_aside (
  endpoint     text        COLLATE "C" NOT NULL,
  key          uuid        NOT NULL,
  cause        text        NOT NULL,
  set_aside_at timestamptz NOT NULL,
  next_try_at  timestamptz,                          -- NULL: it is only kept
  PRIMARY KEY (endpoint, key)
);

-- Time as running processes saw it pass, by their monotonic clocks; what is removed is judged by it and by no wall clock
-- (docs/engineering/decisions/0017). In rows of about an hour, the last of which grows. Its first one begins here.
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

-- A list filtered by both accounts is one range of this index. It has both in one expression, so that only this index has the order
-- in which such a list is read (see `transaction-statements.ts`); no account holds a control character.
CREATE INDEX transactions_by_both_accounts ON idempay.transactions ((from_account || E'\n' || to_account), id);

-- One row. Every create and delete moves it in its own commit and holds it until that commit: so ids rise in commit order
-- (a sequence would hand out ids that commit out of order), none is used twice, and a list tag computed at a version is
-- right for as long as the version stands.
CREATE TABLE idempay.transaction_list (
  only_row                 boolean NOT NULL PRIMARY KEY CHECK (only_row),
  last_id                  bigint  NOT NULL,
  version                  bigint  NOT NULL,               -- moved by every create and delete
  last_removal_version     bigint  NOT NULL,               -- the version that the last delete moved to
  removals                 bigint  NOT NULL,               -- how many transactions were ever removed
  previous_removal_version bigint  NOT NULL                -- the version that the removal before the last one moved to
) WITH (fillfactor = 50);

INSERT INTO idempay.transaction_list VALUES (true, 100000000000000, 0, 0, 0, 0);

-- The last removals: a list tag is then made anew only from the first removed id on. Slots are used again in turn, so the table
-- stays small. Each row names the version of the removal before it, so that a gap shows.
CREATE TABLE idempay.transaction_removals (
  slot             integer NOT NULL PRIMARY KEY,
  version          bigint  NOT NULL,                       -- the list version that this removal moved to
  previous_version bigint  NOT NULL,                       -- the same of the removal before it; 0: there was none
  id               bigint  NOT NULL,
  from_account     text    COLLATE "C" NOT NULL,
  to_account       text    COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

-- The clients' own keys of creates, each in the commit of its rows. Ids of one create follow each other, and a repeat brings the rows
-- themselves: so the first id and the time are the whole result. Removed when it has expired.
CREATE TABLE idempay.creation_keys (
  client      text        COLLATE "C" NOT NULL,            -- whose key it is; '': nobody's, without credentials
  endpoint    text        COLLATE "C" NOT NULL,            -- one, or batch
  key         text        COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 64),
  fingerprint text        NOT NULL,                        -- of the rows
  first_id    bigint      NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (client, endpoint, key)
);

CREATE INDEX creation_keys_by_end ON idempay.creation_keys (expires_at);

-- One row: the masters of Redis that the cache is in, by their replication ids, and a number that rises with each change of them. An
-- entry counts in its own epoch only.
CREATE TABLE idempay.cache_epoch (
  only_row boolean NOT NULL PRIMARY KEY CHECK (only_row),
  epoch    bigint  NOT NULL CHECK (epoch >= 0),
  masters  text[]  NOT NULL
);

INSERT INTO idempay.cache_epoch VALUES (true, 0, '{}');

-- The present epoch if all these masters are in it, else a new one of them. It waits for every change that has asked for the epoch
-- (`is_cache_epoch`) and is not committed yet: so what is read and cached in the new epoch has all changes of the one before.
CREATE FUNCTION idempay.cache_epoch_of(seen text[]) RETURNS SETOF idempay.cache_epoch LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM idempay.cache_epoch WHERE masters @> seen) THEN
    PERFORM pg_advisory_xact_lock(4242017002);
    UPDATE idempay.cache_epoch SET epoch = epoch + 1, masters = seen WHERE NOT masters @> seen;
  END IF;
  RETURN QUERY SELECT * FROM idempay.cache_epoch;
END $$;

-- Whether this is the present epoch, which stays so until the statement's commit. NULL: it does not matter. Volatile, so that it sees
-- what was committed before it got the lock. The lock is in memory only: nothing is written for it.
CREATE FUNCTION idempay.is_cache_epoch(wanted bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF wanted IS NULL THEN
    RETURN true;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(4242017002);
  RETURN (SELECT epoch = wanted FROM idempay.cache_epoch);
END $$;
