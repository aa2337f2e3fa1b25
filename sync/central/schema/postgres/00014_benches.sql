-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00019_benches.sql, which explains it.
CREATE TABLE IF NOT EXISTS benches(
  terminal TEXT NOT NULL,
  hash TEXT NOT NULL,
  received TEXT NOT NULL,
  text TEXT NOT NULL,
  signature BYTEA NOT NULL,
  public_key BYTEA NOT NULL,
  PRIMARY KEY(terminal, hash)
);
