-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00015_sums.sql, which explains them.
CREATE TABLE IF NOT EXISTS tier_sums(
  block_id BYTEA NOT NULL,
  tier BIGINT NOT NULL,
  slot BIGINT NOT NULL,
  claims BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  reversed BIGINT NOT NULL,
  reversed_minor BIGINT NOT NULL,
  PRIMARY KEY(block_id, tier, slot)
);

CREATE TABLE IF NOT EXISTS day_sums(
  block_id BYTEA NOT NULL,
  day TEXT NOT NULL,
  currency TEXT NOT NULL,
  slot BIGINT NOT NULL,
  claims BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  reversed BIGINT NOT NULL,
  reversed_minor BIGINT NOT NULL,
  PRIMARY KEY(block_id, day, currency, slot)
);

CREATE TABLE IF NOT EXISTS block_sums(
  block_id BYTEA NOT NULL,
  terminal TEXT NOT NULL,
  currency TEXT NOT NULL,
  claims BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  reversed BIGINT NOT NULL,
  reversed_minor BIGINT NOT NULL,
  PRIMARY KEY(block_id, terminal, currency)
);

CREATE TABLE IF NOT EXISTS month_sums(
  received TEXT NOT NULL,
  terminal TEXT NOT NULL,
  paid TEXT NOT NULL,
  scaled BIGINT NOT NULL,
  currency TEXT NOT NULL,
  claims BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  reversed BIGINT NOT NULL,
  reversed_minor BIGINT NOT NULL,
  night BIGINT NOT NULL,
  judged BIGINT NOT NULL,
  middle BIGINT NOT NULL,
  expected BIGINT NOT NULL,
  PRIMARY KEY(received, terminal, paid, scaled, currency)
);

CREATE TABLE IF NOT EXISTS terminal_sums(
  paid TEXT NOT NULL,
  terminal TEXT NOT NULL,
  received TEXT NOT NULL,
  scaled BIGINT NOT NULL,
  currency TEXT NOT NULL,
  claims BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  reversed BIGINT NOT NULL,
  reversed_minor BIGINT NOT NULL,
  night BIGINT NOT NULL,
  judged BIGINT NOT NULL,
  middle BIGINT NOT NULL,
  expected BIGINT NOT NULL,
  PRIMARY KEY(paid, terminal, received, scaled, currency)
);
CREATE INDEX IF NOT EXISTS terminal_sums_received ON terminal_sums(received, terminal);
INSERT INTO counters(name, value) SELECT 'sums', CASE WHEN EXISTS (SELECT 1 FROM claims) THEN 0 ELSE 1 END ON CONFLICT(name) DO NOTHING;
