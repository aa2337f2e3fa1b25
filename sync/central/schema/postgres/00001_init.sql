-- +goose NO TRANSACTION
-- +goose Up
-- The tables of schema/sqlite, whose steps explain them; a test holds the two against each
-- other. Each statement commits by itself and can be run again: distributed databases
-- change tables outside transactions, and a start that was cut goes on here.

CREATE TABLE IF NOT EXISTS terminals(
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  added TEXT NOT NULL,
  enrolled TEXT NOT NULL DEFAULT '',
  public_key BYTEA,
  cert_serial TEXT NOT NULL DEFAULT '',
  cert_expires TEXT NOT NULL DEFAULT '',
  contact TEXT NOT NULL DEFAULT '',
  program TEXT NOT NULL DEFAULT '',
  head_epoch BIGINT NOT NULL DEFAULT 1,
  head_seq BIGINT NOT NULL DEFAULT 0,
  head_hash TEXT NOT NULL DEFAULT '',
  ack_epoch BIGINT NOT NULL DEFAULT 1,
  ack_seq BIGINT NOT NULL DEFAULT 0,
  ack_hash TEXT NOT NULL,
  fresh_epoch BIGINT NOT NULL DEFAULT 0,
  snapshot BIGINT NOT NULL DEFAULT 0,
  feed BIGINT NOT NULL DEFAULT 0,
  unsent BIGINT NOT NULL DEFAULT 0,
  skew_ms BIGINT,
  disk_free BIGINT NOT NULL DEFAULT 0,
  faults TEXT NOT NULL DEFAULT '[]',
  region TEXT NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS enrol_codes(
  terminal TEXT NOT NULL PRIMARY KEY,
  hash BYTEA NOT NULL,
  expires TEXT NOT NULL,
  csr BYTEA,
  certificate TEXT NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS blocks(
  block_id BYTEA NOT NULL,
  serial BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  size BIGINT NOT NULL,
  game TEXT NOT NULL,
  name TEXT NOT NULL,
  emission TEXT NOT NULL,
  number BIGINT NOT NULL,
  game_code TEXT NOT NULL,
  tickets BIGINT NOT NULL,
  first_pack BIGINT NOT NULL,
  last_pack BIGINT NOT NULL,
  pack_size BIGINT NOT NULL,
  price_minor BIGINT NOT NULL,
  currency TEXT NOT NULL,
  scaled BIGINT NOT NULL,
  min_reader BIGINT NOT NULL,
  published TEXT NOT NULL,
  PRIMARY KEY(block_id, serial)
);

CREATE TABLE IF NOT EXISTS packs(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  game_code TEXT NOT NULL,
  state TEXT NOT NULL,
  owner TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  changed TEXT NOT NULL,
  PRIMARY KEY(block_id, pack)
);

CREATE TABLE IF NOT EXISTS feed(
  seq BIGINT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  audience TEXT NOT NULL,
  item TEXT NOT NULL,
  at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS snapshots(
  version BIGINT NOT NULL PRIMARY KEY,
  issued TEXT NOT NULL,
  note TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS entries(
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  line BYTEA NOT NULL,
  hash BYTEA NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
);

CREATE TABLE IF NOT EXISTS claims(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  tier BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  currency TEXT NOT NULL,
  operator TEXT NOT NULL,
  paid TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round)
);

CREATE TABLE IF NOT EXISTS conflicts(
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  block_id BYTEA,
  pack BIGINT,
  ticket BIGINT,
  round BIGINT,
  amount_minor BIGINT,
  currency TEXT NOT NULL DEFAULT '',
  line BYTEA NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
);

CREATE TABLE IF NOT EXISTS acks(
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
);

CREATE TABLE IF NOT EXISTS block_regions(
  block_id BYTEA NOT NULL,
  region TEXT NOT NULL,
  PRIMARY KEY(block_id, region)
);

CREATE TABLE IF NOT EXISTS emission_closings(
  game TEXT NOT NULL,
  emission TEXT NOT NULL,
  closed TEXT NOT NULL,
  claim_days BIGINT NOT NULL,
  entered TEXT NOT NULL,
  PRIMARY KEY(game, emission)
);

CREATE TABLE IF NOT EXISTS reversals(
  block_id BYTEA NOT NULL,
  pack BIGINT NOT NULL,
  ticket BIGINT NOT NULL,
  round BIGINT NOT NULL,
  terminal TEXT NOT NULL,
  reversal TEXT NOT NULL,
  claim TEXT NOT NULL,
  claim_epoch BIGINT NOT NULL,
  claim_seq BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  currency TEXT NOT NULL,
  reason TEXT NOT NULL,
  text TEXT NOT NULL,
  operator TEXT NOT NULL,
  manager TEXT NOT NULL,
  asked TEXT NOT NULL,
  received TEXT NOT NULL,
  state TEXT NOT NULL,
  answer TEXT NOT NULL DEFAULT '',
  decided TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, round, terminal)
);

CREATE TABLE IF NOT EXISTS identities(
  terminal TEXT NOT NULL,
  record BYTEA NOT NULL,
  sealed BYTEA,
  digest BYTEA NOT NULL,
  received TEXT NOT NULL,
  erased TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(terminal, record)
);

CREATE TABLE IF NOT EXISTS identity_claims(
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  record BYTEA NOT NULL,
  PRIMARY KEY(claim, terminal, record)
);

CREATE TABLE IF NOT EXISTS identity_requests(
  number BIGINT NOT NULL PRIMARY KEY,
  claim TEXT NOT NULL,
  operator TEXT NOT NULL,
  reason TEXT NOT NULL,
  asked TEXT NOT NULL,
  opened TEXT NOT NULL DEFAULT '',
  opened_by TEXT NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS identity_audit(
  seq BIGINT NOT NULL PRIMARY KEY,
  line TEXT NOT NULL,
  hash BYTEA NOT NULL
);

CREATE TABLE IF NOT EXISTS device_keys(
  terminal TEXT NOT NULL,
  number BIGINT NOT NULL,
  enrolled TEXT NOT NULL,
  public_key BYTEA NOT NULL,
  PRIMARY KEY(terminal, number)
);

CREATE TABLE IF NOT EXISTS counters(
  name TEXT NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS blocks_file ON blocks(sha256);
CREATE INDEX IF NOT EXISTS claims_entry ON claims(terminal, epoch, seq);
CREATE INDEX IF NOT EXISTS conflicts_ticket ON conflicts(block_id, pack, ticket);
CREATE INDEX IF NOT EXISTS packs_owner ON packs(owner, block_id);
CREATE INDEX IF NOT EXISTS reversals_claim ON reversals(terminal, claim_epoch, claim_seq);
CREATE INDEX IF NOT EXISTS identity_claims_record ON identity_claims(terminal, record);
CREATE INDEX IF NOT EXISTS identities_received ON identities(erased, received);

INSERT INTO counters(name, value) VALUES('feed', 0) ON CONFLICT(name) DO NOTHING;
INSERT INTO counters(name, value) VALUES('snapshots', 0) ON CONFLICT(name) DO NOTHING;
INSERT INTO counters(name, value) VALUES('identity_requests', 0) ON CONFLICT(name) DO NOTHING;
INSERT INTO counters(name, value) VALUES('identity_audit', 0) ON CONFLICT(name) DO NOTHING;
