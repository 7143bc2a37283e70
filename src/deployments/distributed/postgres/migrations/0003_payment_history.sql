-- When recovery may take a payment that is PROCESSING: with the end of its lease, or later when it was given up unclear.
-- The default is for rows that a process of the version before writes while this one starts beside it.
ALTER TABLE idempay.payments ADD COLUMN recover_at timestamptz NOT NULL DEFAULT now();
UPDATE idempay.payments SET recover_at = lease_until WHERE state = 'PROCESSING';

-- Why an operator resolved it; NULL where the processor's own answer settled it.
ALTER TABLE idempay.payments ADD COLUMN resolution text
  CHECK (resolution IS NULL OR (state <> 'PROCESSING' AND length(resolution) BETWEEN 1 AND 1000));

-- What recovery may take, longest due first or latest due first. Its condition means PROCESSING as well, in words that only
-- recovery's statement has: so that statement cannot take the other index of what is under way, and no other can take this one.
CREATE INDEX payments_due ON idempay.payments (processor, recover_at) WHERE expires_at IS NULL;

-- Declined payments are rare among all rows; completed ones are not, and are found by the primary key.
CREATE INDEX payments_declined ON idempay.payments (key) WHERE state = 'DECLINED';

CREATE INDEX payments_settled ON idempay.payments (settled_at, key) WHERE settled_at IS NOT NULL;

-- One row. Keys below `keys_before` are never claimed any more. Rows are removed below `removable_before` only: an older
-- value of `keys_before`, which no claim that still runs can have missed.
CREATE TABLE idempay.payment_horizon (
  only_row         boolean     NOT NULL PRIMARY KEY CHECK (only_row),
  keys_before      uuid        NOT NULL,
  removable_before uuid        NOT NULL CHECK (removable_before <= keys_before),
  seen_at          timestamptz                             -- `keys_before` was visible to everybody; NULL: not known yet
);

INSERT INTO idempay.payment_horizon
VALUES (true, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', now());
