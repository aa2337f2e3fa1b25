-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE packs ADD COLUMN IF NOT EXISTS activated TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN IF NOT EXISTS settled TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN IF NOT EXISTS settled_by TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN IF NOT EXISTS was TEXT NOT NULL DEFAULT '';
UPDATE packs SET activated = changed WHERE state IN ('active', 'settled') AND activated = '';
CREATE INDEX IF NOT EXISTS packs_activated ON packs(block_id, state, activated);

CREATE TABLE IF NOT EXISTS pack_tickets(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  state TEXT NOT NULL,
  first BIGINT NOT NULL,
  last BIGINT NOT NULL,
  changed TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, state, first)
);

ALTER TABLE terminals ADD COLUMN IF NOT EXISTS stopped TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS suspensions(
  game TEXT NOT NULL,
  emission TEXT NOT NULL,
  block BIGINT NOT NULL,
  reason TEXT NOT NULL,
  operator TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY(game, emission, block)
);

CREATE TABLE IF NOT EXISTS messages(
  number BIGINT NOT NULL PRIMARY KEY,
  region TEXT NOT NULL,
  terminal TEXT NOT NULL,
  mandatory BIGINT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  fr TEXT NOT NULL,
  en TEXT NOT NULL,
  operator TEXT NOT NULL,
  sent TEXT NOT NULL,
  withdrawn TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS message_readers(
  message BIGINT NOT NULL,
  terminal TEXT NOT NULL,
  operator TEXT NOT NULL,
  read_at TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(message, terminal)
);
INSERT INTO counters(name, value) VALUES('messages', 0) ON CONFLICT(name) DO NOTHING;

CREATE TABLE IF NOT EXISTS conflict_acts(
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  number BIGINT NOT NULL,
  state TEXT NOT NULL,
  liable TEXT NOT NULL,
  note TEXT NOT NULL,
  operator TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq, number)
);

ALTER TABLE acks ADD COLUMN IF NOT EXISTS signature TEXT NOT NULL DEFAULT '';
