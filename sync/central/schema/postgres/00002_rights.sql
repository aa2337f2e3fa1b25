-- +goose NO TRANSACTION
-- +goose Up
-- Step 00007 of schema/sqlite, which explains it.
CREATE TABLE IF NOT EXISTS online_claims(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  tier BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL,
  why TEXT NOT NULL DEFAULT '',
  answer TEXT NOT NULL DEFAULT '',
  asked TEXT NOT NULL,
  decided TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, round, claim)
);

CREATE TABLE IF NOT EXISTS reservations(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  made TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round)
);

CREATE TABLE IF NOT EXISTS holds(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  owner TEXT NOT NULL,
  feed BIGINT NOT NULL,
  state TEXT NOT NULL,
  paid_epoch BIGINT NOT NULL DEFAULT 0,
  paid_seq BIGINT NOT NULL DEFAULT 0,
  paid_at TEXT NOT NULL DEFAULT '',
  head_epoch BIGINT NOT NULL DEFAULT 0,
  head_seq BIGINT NOT NULL DEFAULT 0,
  head_hash TEXT NOT NULL DEFAULT '',
  signature TEXT NOT NULL DEFAULT '',
  asked TEXT NOT NULL,
  answered TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, epoch)
);
CREATE INDEX IF NOT EXISTS holds_feed ON holds(owner, feed);

CREATE TABLE IF NOT EXISTS pack_rights(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  kind TEXT NOT NULL,
  holder TEXT NOT NULL,
  holder_epoch BIGINT NOT NULL,
  note TEXT NOT NULL DEFAULT '',
  since TEXT NOT NULL,
  PRIMARY KEY(block_id, pack)
);
CREATE INDEX IF NOT EXISTS pack_rights_holder ON pack_rights(holder, kind);

CREATE TABLE IF NOT EXISTS booked_risks(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  currency TEXT NOT NULL,
  party TEXT NOT NULL,
  why TEXT NOT NULL,
  policy TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round, claim)
);

CREATE TABLE IF NOT EXISTS replacements(
  old TEXT NOT NULL,
  made TEXT NOT NULL,
  new TEXT NOT NULL,
  packs BIGINT NOT NULL,
  ack_epoch BIGINT NOT NULL,
  ack_seq BIGINT NOT NULL,
  head_epoch BIGINT NOT NULL,
  head_seq BIGINT NOT NULL,
  unsent BIGINT NOT NULL,
  PRIMARY KEY(old, made)
);
