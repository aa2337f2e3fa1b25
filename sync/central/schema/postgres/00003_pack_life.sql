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
