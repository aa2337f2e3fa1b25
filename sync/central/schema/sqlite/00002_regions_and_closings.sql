-- +goose Up
-- Where a terminal stands, '' for nowhere in particular.
ALTER TABLE terminals ADD COLUMN region TEXT NOT NULL DEFAULT '';

-- Regions of the terminals that own packs of a block: kept beside the packs, because a
-- block has 150 000 of them and each delivery asks.
CREATE TABLE block_regions(
  block_id BLOB NOT NULL,
  region TEXT NOT NULL,
  PRIMARY KEY(block_id, region)
) STRICT, WITHOUT ROWID;
CREATE INDEX packs_owner ON packs(owner, block_id);

-- Closing notices. An emission without a row is open.
CREATE TABLE emission_closings(
  game TEXT NOT NULL,
  emission TEXT NOT NULL,
  closed TEXT NOT NULL,                -- YYYY-MM-DD, the notice's date
  claim_days INTEGER NOT NULL,         -- as in force at that date
  entered TEXT NOT NULL,
  PRIMARY KEY(game, emission)
) STRICT, WITHOUT ROWID;
