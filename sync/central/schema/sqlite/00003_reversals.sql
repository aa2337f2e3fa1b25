-- +goose Up
-- Payments that a terminal asks to take back: one request for each claim of a terminal.
-- Accepted, it opens the ticket's next round.
CREATE TABLE reversals(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  round INTEGER NOT NULL,              -- of the claim
  terminal TEXT NOT NULL,
  reversal TEXT NOT NULL,              -- its id
  claim TEXT NOT NULL,                 -- claim id
  claim_epoch INTEGER NOT NULL,        -- the claim's entry
  claim_seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,              -- the request's entry
  seq INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  reason TEXT NOT NULL,                -- validate.ReversalReason
  text TEXT NOT NULL,
  operator TEXT NOT NULL,
  manager TEXT NOT NULL,
  asked TEXT NOT NULL,                 -- the device's clock, a hint
  received TEXT NOT NULL,
  state TEXT NOT NULL,                 -- requested, accepted, refused
  answer TEXT NOT NULL DEFAULT '',     -- central's words
  decided TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(block_id, pack, ticket, round, terminal)
) STRICT, WITHOUT ROWID;
CREATE INDEX reversals_claim ON reversals(terminal, claim_epoch, claim_seq);
