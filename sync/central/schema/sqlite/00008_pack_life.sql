-- +goose Up
-- When a pack was put on sale and when it was settled, '' for never; by whom or by which
-- rule it was settled; and what a stolen pack was before.
ALTER TABLE packs ADD COLUMN activated TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN settled TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN settled_by TEXT NOT NULL DEFAULT '';
ALTER TABLE packs ADD COLUMN was TEXT NOT NULL DEFAULT '';
UPDATE packs SET activated = changed WHERE state IN ('active', 'settled');
CREATE INDEX packs_activated ON packs(block_id, state, activated);

-- Single tickets of a pack that are stolen or were returned: runs of each state, in order
-- and apart. A ticket can be both, for what was returned can be stolen.
CREATE TABLE pack_tickets(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  state TEXT NOT NULL,                 -- stolen or returned
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  changed TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, state, first)
) STRICT, WITHOUT ROWID;

-- Why a terminal may not pay, '' while it may; it goes on sending its journal.
ALTER TABLE terminals ADD COLUMN stopped TEXT NOT NULL DEFAULT '';

-- Suspended games; emission '' and block 0 are all of a game.
CREATE TABLE suspensions(
  game TEXT NOT NULL,
  emission TEXT NOT NULL,
  block INTEGER NOT NULL,              -- number in the emission
  reason TEXT NOT NULL,
  operator TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY(game, emission, block)
) STRICT, WITHOUT ROWID;

-- What was said to the people at counters. region and terminal are '' where it was said to all.
CREATE TABLE messages(
  number INTEGER NOT NULL PRIMARY KEY,
  region TEXT NOT NULL,
  terminal TEXT NOT NULL,
  mandatory INTEGER NOT NULL,
  valid_from TEXT NOT NULL,            -- YYYY-MM-DD in Paris
  valid_to TEXT NOT NULL,              -- '' for no end
  fr TEXT NOT NULL,
  en TEXT NOT NULL,
  operator TEXT NOT NULL,
  sent TEXT NOT NULL,
  withdrawn TEXT NOT NULL DEFAULT ''   -- when
) STRICT;
CREATE TABLE message_readers(
  message INTEGER NOT NULL,
  terminal TEXT NOT NULL,
  operator TEXT NOT NULL,
  read_at TEXT NOT NULL,               -- the device's clock, a hint
  received TEXT NOT NULL,
  PRIMARY KEY(message, terminal)
) STRICT, WITHOUT ROWID;
INSERT INTO counters(name, value) VALUES('messages', 0);

-- What operators did with a conflict, one row an act, never changed. A conflict without
-- one is open.
CREATE TABLE conflict_acts(
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,             -- of the conflict's acts, from 1
  state TEXT NOT NULL,                 -- inquiry, settled, open
  liable TEXT NOT NULL,                -- who bears it, with settled
  note TEXT NOT NULL,
  operator TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq, number)
) STRICT, WITHOUT ROWID;

-- The device's signature over the head that was acknowledged, base64: half of the proof of
-- what a terminal sent.
ALTER TABLE acks ADD COLUMN signature TEXT NOT NULL DEFAULT '';
