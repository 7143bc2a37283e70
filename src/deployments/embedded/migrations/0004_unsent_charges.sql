-- The epoch that was given up with nothing ever sent for the payment, by it or by any epoch before it. It counts only while it
-- is the row's epoch: whoever takes the payment over ends it with the same commit.
ALTER TABLE payments ADD COLUMN unsent_epoch INTEGER;

-- `claimed_at` by the wall clock of the machine. The store's clock stands still while the machine is suspended, and may while the
-- service is stopped; a charge is sent again only where both clocks say that it is recent enough.
ALTER TABLE payments ADD COLUMN claimed_at_wall INTEGER NOT NULL DEFAULT 0;
