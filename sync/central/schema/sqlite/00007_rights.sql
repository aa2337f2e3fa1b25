-- +goose Up
-- Claims that terminals asked about, each with the answer that its id gets for ever once
-- it is final.
CREATE TABLE online_claims(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,
  claim TEXT NOT NULL,                 -- claim id
  terminal TEXT NOT NULL,              -- that asks
  tier INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL,                 -- wire.ClaimState
  why TEXT NOT NULL DEFAULT '',        -- wire.ClaimWhy
  answer TEXT NOT NULL DEFAULT '',     -- wire.ClaimAnswer as JSON
  asked TEXT NOT NULL,
  decided TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, round, claim)
) STRICT, WITHOUT ROWID;

-- Tickets that one claim alone may pay: it was approved and not given back. The row stays
-- when the claim is paid.
CREATE TABLE reservations(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  made TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round)
) STRICT, WITHOUT ROWID;

-- Tickets that a pack's owner was asked to pay no more by itself, once for each owner epoch.
CREATE TABLE holds(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  epoch INTEGER NOT NULL,              -- owner epoch
  owner TEXT NOT NULL,
  feed INTEGER NOT NULL,               -- number of the item that asked
  state TEXT NOT NULL,                 -- asked, held, paid
  paid_epoch INTEGER NOT NULL DEFAULT 0, -- the entry that had paid it before
  paid_seq INTEGER NOT NULL DEFAULT 0,
  paid_at TEXT NOT NULL DEFAULT '',    -- the device's clock, a hint
  head_epoch INTEGER NOT NULL DEFAULT 0, -- end of the owner's journal then, as it signed it
  head_seq INTEGER NOT NULL DEFAULT 0,
  head_hash TEXT NOT NULL DEFAULT '',
  signature TEXT NOT NULL DEFAULT '',
  asked TEXT NOT NULL,
  answered TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_feed ON holds(owner, feed);

-- Packs of which the owner of the table packs does not pay with no network. A row whose
-- epoch is lower than the pack's is of the past.
CREATE TABLE pack_rights(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  epoch INTEGER NOT NULL,              -- owner epoch of the pack that it is about
  kind TEXT NOT NULL,                  -- released: the owner stopped; forced: holder may still pay; online: holder was written off
  holder TEXT NOT NULL,                -- who had the right before
  holder_epoch INTEGER NOT NULL,
  note TEXT NOT NULL DEFAULT '',
  since TEXT NOT NULL,
  PRIMARY KEY(block_id, pack)
) STRICT, WITHOUT ROWID;
CREATE INDEX pack_rights_holder ON pack_rights(holder, kind);

-- Payments of packs of silent owners, at the risk of a party that the policy names.
CREATE TABLE booked_risks(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,
  claim TEXT NOT NULL,
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,              -- the entry that says so
  seq INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  party TEXT NOT NULL,
  why TEXT NOT NULL,                   -- owner-silent, central-silent
  policy TEXT NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, round, claim)
) STRICT, WITHOUT ROWID;

-- Terminals that another one took the place of, and how much of their journals was known.
CREATE TABLE replacements(
  old TEXT NOT NULL,
  made TEXT NOT NULL,
  new TEXT NOT NULL,
  packs INTEGER NOT NULL,
  ack_epoch INTEGER NOT NULL,          -- end of the journal held here
  ack_seq INTEGER NOT NULL,
  head_epoch INTEGER NOT NULL,         -- end that it last told of
  head_seq INTEGER NOT NULL,
  unsent INTEGER NOT NULL,
  PRIMARY KEY(old, made)
) STRICT, WITHOUT ROWID;
