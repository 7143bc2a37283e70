-- Whose key it is (decisions A5); NULL: everybody's, as all keys of before.
ALTER TABLE idempotency_keys ADD COLUMN client TEXT;
ALTER TABLE payments ADD COLUMN client TEXT;

-- A client's list is one range of it.
CREATE INDEX payments_by_client ON payments (client, key) WHERE client IS NOT NULL;
