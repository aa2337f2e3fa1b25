-- +goose Up
-- Sums of the accepted claims, and of those of them that were taken back, kept in the
-- transactions that accept a claim or its reversal: a report reads some thousand rows and
-- not every claim there ever was. sums.go makes them, and `central report audit` holds them
-- against the claims. Days and months are Paris's; '' is of a time that cannot be read.
--
-- A terminal adds to the rows of its own slot, so that two uploads seldom wait for one row;
-- whoever reads adds the slots up.
CREATE TABLE tier_sums(
  block_id BLOB NOT NULL,
  tier INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  claims INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  reversed INTEGER NOT NULL,
  reversed_minor INTEGER NOT NULL,
  PRIMARY KEY(block_id, tier, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE day_sums(
  block_id BLOB NOT NULL,
  day TEXT NOT NULL,                   -- YYYY-MM-DD of the payment, by the device's clock
  currency TEXT NOT NULL,
  slot INTEGER NOT NULL,
  claims INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  reversed INTEGER NOT NULL,
  reversed_minor INTEGER NOT NULL,
  PRIMARY KEY(block_id, day, currency, slot)
) STRICT, WITHOUT ROWID;

-- What each terminal paid of each block.
CREATE TABLE block_sums(
  block_id BLOB NOT NULL,
  terminal TEXT NOT NULL,
  currency TEXT NOT NULL,
  claims INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  reversed INTEGER NOT NULL,
  reversed_minor INTEGER NOT NULL,
  PRIMARY KEY(block_id, terminal, currency)
) STRICT, WITHOUT ROWID;

-- What each terminal paid, by the months in which central received it and in which it was
-- paid, and by such days below: a period is whole months and the days at its ends.
CREATE TABLE month_sums(
  received TEXT NOT NULL,              -- YYYY-MM, central's clock
  terminal TEXT NOT NULL,
  paid TEXT NOT NULL,                  -- YYYY-MM, the device's clock
  scaled INTEGER NOT NULL,             -- 1 of a demonstration block, -1 of one that is not known
  currency TEXT NOT NULL,
  claims INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  reversed INTEGER NOT NULL,
  reversed_minor INTEGER NOT NULL,
  night INTEGER NOT NULL,              -- paid from 0 to before 5 h
  judged INTEGER NOT NULL,             -- low and middle prizes, see classes in sums.go
  middle INTEGER NOT NULL,             -- middle ones of those
  expected INTEGER NOT NULL,           -- middle ones that the blocks' tables expect, in 1e-9
  PRIMARY KEY(received, terminal, paid, scaled, currency)
) STRICT, WITHOUT ROWID;

CREATE TABLE terminal_sums(
  paid TEXT NOT NULL,                  -- YYYY-MM-DD
  terminal TEXT NOT NULL,
  received TEXT NOT NULL,              -- YYYY-MM-DD
  scaled INTEGER NOT NULL,
  currency TEXT NOT NULL,
  claims INTEGER NOT NULL,
  amount_minor INTEGER NOT NULL,
  reversed INTEGER NOT NULL,
  reversed_minor INTEGER NOT NULL,
  night INTEGER NOT NULL,
  judged INTEGER NOT NULL,
  middle INTEGER NOT NULL,
  expected INTEGER NOT NULL,
  PRIMARY KEY(paid, terminal, received, scaled, currency)
) STRICT, WITHOUT ROWID;
CREATE INDEX terminal_sums_received ON terminal_sums(received, terminal);
-- 1 once the sums hold every claim that was here before them.
INSERT INTO counters(name, value) SELECT 'sums', CASE WHEN EXISTS (SELECT 1 FROM claims) THEN 0 ELSE 1 END;
