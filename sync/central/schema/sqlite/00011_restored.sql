-- +goose Up
-- The newest feed item in the backup that was put back, 0 for not known, and whether a
-- person said that no terminal was enrolled since that backup.
ALTER TABLE restores ADD COLUMN feed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE restores ADD COLUMN roster INTEGER NOT NULL DEFAULT 0;

-- Whether the terminal's program tells what it may pay after a restore, and of which
-- restore it has told all of it.
ALTER TABLE terminals ADD COLUMN tells INTEGER NOT NULL DEFAULT 0;
ALTER TABLE terminals ADD COLUMN told TEXT NOT NULL DEFAULT '';

-- Of which restore the pack's owner has told that it has the pack, '' for none.
ALTER TABLE packs ADD COLUMN sure TEXT NOT NULL DEFAULT '';

-- Permissions of lost terminals that a person gave up: who, why and when. Made is of the
-- reservation. Nothing is removed from it.
CREATE TABLE freed(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  made TEXT NOT NULL,
  operator TEXT NOT NULL,
  why TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round, claim)
) STRICT, WITHOUT ROWID;

-- When and by whom a policy was taken back, '' for not.
ALTER TABLE policies ADD COLUMN withdrawn TEXT NOT NULL DEFAULT '';
ALTER TABLE policies ADD COLUMN withdrawn_by TEXT NOT NULL DEFAULT '';

-- Tickets of which terminals were told, by the feed item, that they are stolen or went back,
-- while that holds; ticket -1 is the whole pack.
CREATE TABLE recalls(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  state TEXT NOT NULL,
  feed INTEGER NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket)
) STRICT, WITHOUT ROWID;

-- What the terminal knew of such a report when it paid: 'before' it was heard, 'after',
-- 'unknown' where its program does not say, '' where there was none. heard is the feed item
-- that it had reached, recall the report's.
ALTER TABLE claims ADD COLUMN knew TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN recall INTEGER NOT NULL DEFAULT 0;

-- Tickets that were presented at a terminal and that it tells of: reported stolen, or too
-- many secrets of them were tried. One row a ticket, reason and terminal.
CREATE TABLE attempts(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  reason TEXT NOT NULL,
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  operator TEXT NOT NULL,
  entered TEXT NOT NULL,
  tried TEXT NOT NULL,                 -- by the terminal's clock
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, reason, terminal)
) STRICT, WITHOUT ROWID;

-- Blocks of which no more packs are put on sale.
CREATE TABLE sales_ends(
  block_id BLOB NOT NULL PRIMARY KEY,
  reason TEXT NOT NULL,
  operator TEXT NOT NULL,
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Catalogues of games; the newest is in the snapshot. Text is the file.
CREATE TABLE catalogues(
  sha256 TEXT NOT NULL PRIMARY KEY,
  text TEXT NOT NULL,
  games INTEGER NOT NULL,
  operator TEXT NOT NULL,
  published TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Software that the snapshot names; withdrawn is '' while it does.
CREATE TABLE releases(
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  operator TEXT NOT NULL,
  announced TEXT NOT NULL,
  withdrawn TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(name, version)
) STRICT, WITHOUT ROWID;

-- The same snapshot in the text that names the catalogue and software, signed; '' where it
-- names neither.
ALTER TABLE snapshots ADD COLUMN whole TEXT NOT NULL DEFAULT '';
