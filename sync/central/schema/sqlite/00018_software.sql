-- +goose Up
-- Updates whose bundles central gives. The release of the same board and version is in the
-- snapshot. State: published, rolling, halted; why is of the last halt.
CREATE TABLE updates(
  board TEXT NOT NULL,
  version TEXT NOT NULL,
  number INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  manifest TEXT NOT NULL,   -- signed note
  notes TEXT NOT NULL,
  operator TEXT NOT NULL,
  published TEXT NOT NULL,
  state TEXT NOT NULL,
  max_failed INTEGER NOT NULL DEFAULT 0,   -- terminals on which it may fail before it is halted
  why TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(board, version)
) STRICT, WITHOUT ROWID;

-- Whom a version is offered to: percent, region, or the terminals of rollout_terminals.
CREATE TABLE rollouts(
  version TEXT NOT NULL,
  kind TEXT NOT NULL,
  value TEXT NOT NULL,
  operator TEXT NOT NULL,
  began TEXT NOT NULL,
  PRIMARY KEY(version, kind, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_terminals(
  version TEXT NOT NULL,
  terminal TEXT NOT NULL,
  kind TEXT NOT NULL,   -- canary or named
  PRIMARY KEY(version, terminal)
) STRICT, WITHOUT ROWID;

-- What each terminal runs, as it told last, and how far it has come with each version.
CREATE TABLE terminal_software(
  terminal TEXT NOT NULL PRIMARY KEY,
  board TEXT NOT NULL,
  version TEXT NOT NULL,
  number INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  told TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE terminal_updates(
  version TEXT NOT NULL,
  terminal TEXT NOT NULL,
  offered TEXT NOT NULL,   -- '' where it came by hand
  step TEXT NOT NULL,   -- '' before it told of it
  reason TEXT NOT NULL,
  changed TEXT NOT NULL,
  PRIMARY KEY(version, terminal)
) STRICT, WITHOUT ROWID;
