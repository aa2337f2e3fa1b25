-- +goose Up
-- What terminals were found to be when they left the bench, as their device keys signed it.
CREATE TABLE benches(
  terminal TEXT NOT NULL,
  hash TEXT NOT NULL,        -- SHA-256 of the text
  received TEXT NOT NULL,    -- central's clock
  text TEXT NOT NULL,        -- exact, wire.BenchNote
  signature BLOB NOT NULL,
  public_key BLOB NOT NULL,  -- of the device, that verified it
  PRIMARY KEY(terminal, hash)
);
