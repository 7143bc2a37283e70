-- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while it
-- is the row's epoch: whoever takes the payment over ends it with the same commit.
ALTER TABLE payments ADD COLUMN unsent_epoch INTEGER;
