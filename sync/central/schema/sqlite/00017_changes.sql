-- +goose Up
-- When a terminal began to run a program, or to have a publication, as it told: a row each time
-- one of the two is another than in the hello before. Of what is older than half a year the
-- newest row is kept.
CREATE TABLE terminal_changes(
  terminal TEXT NOT NULL,
  at TEXT NOT NULL,                    -- central's clock
  program TEXT NOT NULL,
  snapshot INTEGER NOT NULL,
  PRIMARY KEY(terminal, at)
) STRICT, WITHOUT ROWID;

INSERT INTO terminal_changes(terminal, at, program, snapshot) SELECT name, contact, program, snapshot FROM terminals WHERE contact <> '' AND program <> '';
