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
