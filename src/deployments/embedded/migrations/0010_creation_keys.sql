-- The clients' own keys of creates, each in the commit of its rows. Ids of one create follow each other, and a repeat brings the rows
-- themselves: so the first id and the time are the whole result. Removed when it has expired.
CREATE TABLE creation_keys (
  client      TEXT    NOT NULL,                            -- whose key it is; '': nobody's, without credentials
  endpoint    TEXT    NOT NULL,                            -- one, or batch
  key         TEXT    NOT NULL CHECK (length(key) BETWEEN 1 AND 64),
  fingerprint TEXT    NOT NULL,                            -- of the rows
  first_id    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,                            -- ms since the epoch
  expires_at  INTEGER NOT NULL,                            -- ms since the epoch
  PRIMARY KEY (client, endpoint, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX creation_keys_by_end ON creation_keys (expires_at);
