-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00012_reports.sql, which explains them.
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS shop TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN IF NOT EXISTS entered TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN IF NOT EXISTS first_check TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS block_tiers(
  block_id BYTEA NOT NULL,
  tier BIGINT NOT NULL,
  tickets BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  PRIMARY KEY(block_id, tier)
);

CREATE TABLE IF NOT EXISTS outages(
  terminal TEXT NOT NULL,
  code TEXT NOT NULL,
  began TEXT NOT NULL,
  ended TEXT NOT NULL DEFAULT '',
  cause TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(terminal, code, began)
);

CREATE TABLE IF NOT EXISTS looks(
  terminal TEXT NOT NULL,
  day TEXT NOT NULL,
  reason TEXT NOT NULL,
  entered TEXT NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY(terminal, day, reason, entered)
);

CREATE TABLE IF NOT EXISTS sightings(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  terminal TEXT NOT NULL,
  number BIGINT NOT NULL,
  reason TEXT NOT NULL,
  entered TEXT NOT NULL,
  operator TEXT NOT NULL,
  seen TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, terminal, number)
);
CREATE INDEX IF NOT EXISTS sightings_terminal ON sightings(terminal, number);

CREATE TABLE IF NOT EXISTS settlements(
  number BIGINT NOT NULL PRIMARY KEY,
  first_day TEXT NOT NULL,
  last_day TEXT NOT NULL,
  note TEXT NOT NULL,
  lines TEXT NOT NULL,
  operator TEXT NOT NULL,
  closed TEXT NOT NULL
);
INSERT INTO counters(name, value) VALUES('settlements', 0) ON CONFLICT(name) DO NOTHING;
