-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00017_changes.sql, which explains it.
CREATE TABLE IF NOT EXISTS terminal_changes(
  terminal TEXT NOT NULL,
  at TEXT NOT NULL,
  program TEXT NOT NULL,
  snapshot BIGINT NOT NULL,
  PRIMARY KEY(terminal, at)
);

INSERT INTO terminal_changes(terminal, at, program, snapshot) SELECT name, contact, program, snapshot FROM terminals WHERE contact <> '' AND program <> '' ON CONFLICT(terminal, at) DO NOTHING;
