-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00011_restored.sql, which explains them.
ALTER TABLE restores ADD COLUMN IF NOT EXISTS feed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE restores ADD COLUMN IF NOT EXISTS roster BIGINT NOT NULL DEFAULT 0;

ALTER TABLE terminals ADD COLUMN IF NOT EXISTS tells BIGINT NOT NULL DEFAULT 0;
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS told TEXT NOT NULL DEFAULT '';

ALTER TABLE packs ADD COLUMN IF NOT EXISTS sure TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS freed(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  made TEXT NOT NULL,
  operator TEXT NOT NULL,
  why TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round, claim)
);

-- When and by whom a policy was taken back, '' for not.
ALTER TABLE policies ADD COLUMN IF NOT EXISTS withdrawn TEXT NOT NULL DEFAULT '';
ALTER TABLE policies ADD COLUMN IF NOT EXISTS withdrawn_by TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS recalls(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  state TEXT NOT NULL,
  feed BIGINT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket)
);

ALTER TABLE claims ADD COLUMN IF NOT EXISTS knew TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN IF NOT EXISTS heard BIGINT NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN IF NOT EXISTS recall BIGINT NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS attempts(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  reason TEXT NOT NULL,
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  operator TEXT NOT NULL,
  entered TEXT NOT NULL,
  tried TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, reason, terminal)
);

CREATE TABLE IF NOT EXISTS sales_ends(
  block_id BYTEA NOT NULL PRIMARY KEY,
  reason TEXT NOT NULL,
  operator TEXT NOT NULL,
  since TEXT NOT NULL
);
