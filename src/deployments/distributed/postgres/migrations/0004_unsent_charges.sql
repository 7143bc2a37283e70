-- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while it
-- is the row's epoch: whoever takes the payment over ends it with the same commit, also a process of the version before.
ALTER TABLE idempay.payments ADD COLUMN unsent_epoch integer;
