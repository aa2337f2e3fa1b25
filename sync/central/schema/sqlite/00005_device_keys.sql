-- +goose Up
-- Every key that a terminal enrolled, one row an enrolment: slips and heads that an earlier
-- one signed are verified with it. terminals has the newest, which signs uploads.
CREATE TABLE device_keys(
  terminal TEXT NOT NULL,
  number INTEGER NOT NULL,             -- of the terminal's enrolments, from 1
  enrolled TEXT NOT NULL,
  public_key BLOB NOT NULL,            -- PKIX, P-256
  PRIMARY KEY(terminal, number)
) STRICT, WITHOUT ROWID;
INSERT INTO device_keys(terminal, number, enrolled, public_key)
  SELECT name, 1, enrolled, public_key FROM terminals WHERE public_key IS NOT NULL;
