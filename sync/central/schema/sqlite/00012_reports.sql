-- +goose Up
-- The shop that a terminal stands in; '' is a shop of its own that has the terminal's name.
ALTER TABLE terminals ADD COLUMN shop TEXT NOT NULL DEFAULT '';

-- How a claim's ticket was entered (scan, typed) and when it was first looked at, by the
-- device's clock; '' where it is not known.
ALTER TABLE claims ADD COLUMN entered TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN first_check TEXT NOT NULL DEFAULT '';

-- Prize tables of blocks, as their signed headers have them. Central fills them in when it
-- opens and when a block is published.
CREATE TABLE block_tiers(
  block_id BLOB NOT NULL,
  tier INTEGER NOT NULL,               -- from 1
  tickets INTEGER NOT NULL,            -- that win it
  amount_minor INTEGER NOT NULL,
  PRIMARY KEY(block_id, tier)
) STRICT, WITHOUT ROWID;

-- Times in which a terminal was not heard, and in which it told of a fault. ended is ''
-- while a fault lasts; a silence has a row once it is over.
CREATE TABLE outages(
  terminal TEXT NOT NULL,
  code TEXT NOT NULL,                  -- no-contact, or the fault's code
  began TEXT NOT NULL,
  ended TEXT NOT NULL DEFAULT '',
  cause TEXT NOT NULL DEFAULT '',      -- of a silence: link (its program went on) or stopped (it was started again)
  PRIMARY KEY(terminal, code, began)
) STRICT, WITHOUT ROWID;

-- How often a terminal answered what, as it tells: counts of a day only rise.
CREATE TABLE looks(
  terminal TEXT NOT NULL,
  day TEXT NOT NULL,                   -- YYYY-MM-DD in Paris, the device's clock
  reason TEXT NOT NULL,                -- validate.Reason
  entered TEXT NOT NULL,               -- scan, typed
  number INTEGER NOT NULL,
  PRIMARY KEY(terminal, day, reason, entered)
) STRICT, WITHOUT ROWID;

-- Tickets that a terminal looked at and that somebody may want to know of: winners, tickets
-- that are not on sale, stolen or paid. number is the terminal's own, rising.
CREATE TABLE sightings(
  block_id BLOB NOT NULL,
  pack INTEGER NOT NULL,
  ticket INTEGER NOT NULL,
  terminal TEXT NOT NULL,
  number INTEGER NOT NULL,
  reason TEXT NOT NULL,
  entered TEXT NOT NULL,
  operator TEXT NOT NULL,
  seen TEXT NOT NULL,                  -- the device's clock, a hint
  received TEXT NOT NULL,
  PRIMARY KEY(block_id, pack, ticket, terminal, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_terminal ON sightings(terminal, number);

-- Settlements that were closed: signed once, never changed, each going on where the one
-- before ended.
CREATE TABLE settlements(
  number INTEGER NOT NULL PRIMARY KEY,
  first_day TEXT NOT NULL,             -- YYYY-MM-DD, days of central's clock in Paris
  last_day TEXT NOT NULL,
  note TEXT NOT NULL,                  -- the signed head
  lines TEXT NOT NULL,                 -- one a terminal and currency; the head has their SHA-256
  operator TEXT NOT NULL,
  closed TEXT NOT NULL
) STRICT;
INSERT INTO counters(name, value) VALUES('settlements', 0);
