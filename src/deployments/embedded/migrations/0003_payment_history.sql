-- When recovery may take a payment that is PROCESSING: with the end of its lease, or later when it was given up unclear.
ALTER TABLE payments ADD COLUMN recover_at INTEGER NOT NULL DEFAULT 0;
UPDATE payments SET recover_at = lease_until WHERE state = 'PROCESSING';

-- Why an operator resolved it; NULL where the processor's own answer settled it.
ALTER TABLE payments ADD COLUMN resolution TEXT
  CHECK (resolution IS NULL OR (state <> 'PROCESSING' AND length(resolution) BETWEEN 1 AND 1000));

-- What recovery may take, longest due first or latest due first.
CREATE INDEX payments_due ON payments (processor, recover_at) WHERE state = 'PROCESSING';

-- Declined payments are rare among all rows; completed ones are not, and are found in the table itself.
CREATE INDEX payments_declined ON payments (key) WHERE state = 'DECLINED';

CREATE INDEX payments_settled ON payments (settled_at, key) WHERE settled_at IS NOT NULL;

-- One row. Keys below `keys_before` are never claimed any more, so the rows of such keys may be removed.
CREATE TABLE payment_horizon (
  only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  keys_before TEXT    NOT NULL CHECK (length(keys_before) = 36)
) STRICT;

INSERT INTO payment_horizon VALUES (1, '00000000-0000-0000-0000-000000000000');
