-- Additive: a version that does not know the column writes NULL and reads every key as everybody's.
-- Whose key it is (decisions A5); NULL: everybody's, as all keys of before.
ALTER TABLE idempay.payments ADD COLUMN client text;

-- A client's list is one range of it.
CREATE INDEX payments_by_client ON idempay.payments (client, key) WHERE client IS NOT NULL;
