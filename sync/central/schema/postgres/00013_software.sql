-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00018_software.sql, which explains them.
CREATE TABLE IF NOT EXISTS updates(
  board TEXT NOT NULL,
  version TEXT NOT NULL,
  number BIGINT NOT NULL,
  floor BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  size BIGINT NOT NULL,
  manifest TEXT NOT NULL,
  notes TEXT NOT NULL,
  operator TEXT NOT NULL,
  published TEXT NOT NULL,
  state TEXT NOT NULL,
  max_failed BIGINT NOT NULL DEFAULT 0,
  why TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(board, version)
);

CREATE TABLE IF NOT EXISTS rollouts(
  version TEXT NOT NULL,
  kind TEXT NOT NULL,
  value TEXT NOT NULL,
  operator TEXT NOT NULL,
  began TEXT NOT NULL,
  PRIMARY KEY(version, kind, value)
);

CREATE TABLE IF NOT EXISTS rollout_terminals(
  version TEXT NOT NULL,
  terminal TEXT NOT NULL,
  kind TEXT NOT NULL,
  PRIMARY KEY(version, terminal)
);

CREATE TABLE IF NOT EXISTS terminal_software(
  terminal TEXT NOT NULL PRIMARY KEY,
  board TEXT NOT NULL,
  version TEXT NOT NULL,
  number BIGINT NOT NULL,
  floor BIGINT NOT NULL,
  told TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS terminal_updates(
  version TEXT NOT NULL,
  terminal TEXT NOT NULL,
  offered TEXT NOT NULL,
  step TEXT NOT NULL,
  reason TEXT NOT NULL,
  changed TEXT NOT NULL,
  PRIMARY KEY(version, terminal)
);
