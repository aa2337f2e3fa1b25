-- +goose Up
-- Times are text as wire.FormatTime writes them (24 bytes, they sort); amounts are minor
-- units; block data has its block id first in every key. No trigger, no serial number.

-- One row a terminal. ack_*: the end of the journal held here. head_*: the end the terminal
-- last told of. fresh_epoch 1: a person enrolled it, so its journal may begin a higher epoch.
CREATE TABLE terminals(
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,                 -- never-seen, enrolled, suspended
  reason TEXT NOT NULL DEFAULT '',     -- why suspended
  added TEXT NOT NULL,
  enrolled TEXT NOT NULL DEFAULT '',
  public_key BLOB,                     -- PKIX, P-256
  cert_serial TEXT NOT NULL DEFAULT '',
  cert_expires TEXT NOT NULL DEFAULT '',
  contact TEXT NOT NULL DEFAULT '',    -- last hello or upload
  program TEXT NOT NULL DEFAULT '',
  head_epoch INTEGER NOT NULL DEFAULT 1,
  head_seq INTEGER NOT NULL DEFAULT 0,
  head_hash TEXT NOT NULL DEFAULT '',
  ack_epoch INTEGER NOT NULL DEFAULT 1,
  ack_seq INTEGER NOT NULL DEFAULT 0,
  ack_hash TEXT NOT NULL,
  fresh_epoch INTEGER NOT NULL DEFAULT 0,
  snapshot INTEGER NOT NULL DEFAULT 0, -- version in force there
  feed INTEGER NOT NULL DEFAULT 0,     -- cursor reached there
  unsent INTEGER NOT NULL DEFAULT 0,
  skew_ms INTEGER,                     -- device clock minus central's at the last hello
  disk_free INTEGER NOT NULL DEFAULT 0,
  faults TEXT NOT NULL DEFAULT '[]'    -- JSON list of codes
) STRICT, WITHOUT ROWID;

-- One live code a terminal, as a hash. csr and certificate: what it was used for.
CREATE TABLE enrol_codes(
  terminal TEXT NOT NULL PRIMARY KEY,
  hash BLOB NOT NULL,
  expires TEXT NOT NULL,
  csr BLOB,                            -- SHA-256 of the request's DER
  certificate TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- One row a published file. A block published again has a higher serial.
CREATE TABLE blocks(
  block_id BLOB NOT NULL,
  serial INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  game TEXT NOT NULL,
  name TEXT NOT NULL,
  emission TEXT NOT NULL,
  number INTEGER NOT NULL,
  game_code TEXT NOT NULL,
  tickets INTEGER NOT NULL,
  first_pack INTEGER NOT NULL,
  last_pack INTEGER NOT NULL,
  pack_size INTEGER NOT NULL,
  price_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  scaled INTEGER NOT NULL,             -- 1 for a demonstration block
  min_reader INTEGER NOT NULL,
  published TEXT NOT NULL,
  PRIMARY KEY(block_id, serial)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_file ON blocks(sha256);

-- Packs that left the printer's store. A pack of a published block without a row is printed.
CREATE TABLE packs(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  game_code TEXT NOT NULL,
  state TEXT NOT NULL,                 -- validate.PackState
  owner TEXT NOT NULL,
  epoch INTEGER NOT NULL,              -- owner epoch
  changed TEXT NOT NULL,
  PRIMARY KEY(block_id, pack)
) STRICT, WITHOUT ROWID;

-- The status feed. audience '' is every terminal.
CREATE TABLE feed(
  seq INTEGER NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  audience TEXT NOT NULL,
  item TEXT NOT NULL,                  -- wire.FeedItem as JSON
  at TEXT NOT NULL
) STRICT;

CREATE TABLE snapshots(
  version INTEGER NOT NULL PRIMARY KEY,
  issued TEXT NOT NULL,
  note TEXT NOT NULL                   -- signed, as it is served
) STRICT;

-- Every well-signed entry, its bytes as the terminal wrote them.
CREATE TABLE entries(
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  line BLOB NOT NULL,
  hash BLOB NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
) STRICT, WITHOUT ROWID;

-- Accepted claims: the first accepted one of a ticket and round, and no other.
CREATE TABLE claims(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,
  claim TEXT NOT NULL,                 -- claim id
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  tier INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  operator TEXT NOT NULL,
  paid TEXT NOT NULL,                  -- the device's clock, a hint
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_entry ON claims(terminal, epoch, seq);

-- Entries that were stored and not credited, whole. The ticket's columns are null where
-- the entry names none.
CREATE TABLE conflicts(
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,                  -- wire.ExceptionKind
  text TEXT NOT NULL,
  block_id BLOB,
  pack INTEGER,
  ticket INTEGER,
  round INTEGER,
  amount_minor INTEGER,                -- as claimed
  currency TEXT NOT NULL DEFAULT '',
  line BLOB NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX conflicts_ticket ON conflicts(block_id, pack, ticket);

-- Acknowledgements as they were signed, so that an upload repeated gets the same one.
CREATE TABLE acks(
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq)
) STRICT, WITHOUT ROWID;
