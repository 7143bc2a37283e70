-- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while it
-- is the row's epoch: whoever takes the payment over ends it with the same commit, also a process of the version before.
ALTER TABLE idempay.payments ADD COLUMN unsent_epoch integer;

-- Of the deployment when the row's epoch began. The mark counts only while it is the deployment's: a database that lost its newest
-- rows may have lost a takeover that sent the charge.
ALTER TABLE idempay.payments ADD COLUMN generation integer NOT NULL DEFAULT 0;
