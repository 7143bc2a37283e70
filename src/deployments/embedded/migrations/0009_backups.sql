-- One row. A file that `idempay backup` wrote has `is_backup` 1 until it is started: rows of keys below `look_up_before` may then
-- have been written after the copy and lost with the original, so their first claim asks the processor before it charges.
CREATE TABLE deployment (
  only_row       INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
  is_backup      INTEGER NOT NULL DEFAULT 0 CHECK (is_backup IN (0, 1)),
  look_up_before TEXT    NOT NULL CHECK (length(look_up_before) = 36)
) STRICT;

INSERT INTO deployment (only_row, look_up_before) VALUES (1, '00000000-0000-0000-0000-000000000000');
