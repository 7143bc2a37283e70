-- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while it
-- is the row's epoch: whoever takes the payment over ends it with the same commit.
ALTER TABLE payments ADD COLUMN unsent_epoch INTEGER;

-- With what tells an unsent payment, so that counting those that wait for an operator still reads the index alone.
DROP INDEX payments_under_way;
CREATE INDEX payments_under_way ON payments (recover_at, lease_until, claimed_at, epoch, unsent_epoch) WHERE state = 'PROCESSING';
