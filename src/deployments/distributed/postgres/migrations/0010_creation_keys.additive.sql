-- Additive: a version that does not know the table creates as before, whatever key a client sends.
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
