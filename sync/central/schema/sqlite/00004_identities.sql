-- +goose Up
-- Identities of winners as terminals sealed them, apart from claims. Only the holders of the
-- register's private key read one. sealed is null once it was erased: the row stays, so that
-- a terminal that sends it again does not bring it back.
CREATE TABLE identities(
  terminal TEXT NOT NULL,
  record BLOB NOT NULL,                -- 16 bytes
  sealed BLOB,
  digest BLOB NOT NULL,                -- SHA-256 of sealed
  received TEXT NOT NULL,
  erased TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(terminal, record)
) STRICT, WITHOUT ROWID;

-- Which payments a record is for, as the terminal named them.
CREATE TABLE identity_claims(
  claim TEXT NOT NULL,                 -- claim id
  terminal TEXT NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY(claim, terminal, record)
) STRICT, WITHOUT ROWID;
CREATE INDEX identity_claims_record ON identity_claims(terminal, record);
CREATE INDEX identities_received ON identities(erased, received);

-- Who asked to read what. Somebody else opens it, once, while it is fresh.
CREATE TABLE identity_requests(
  number INTEGER NOT NULL PRIMARY KEY,
  claim TEXT NOT NULL,
  operator TEXT NOT NULL,
  reason TEXT NOT NULL,
  asked TEXT NOT NULL,
  opened TEXT NOT NULL DEFAULT '',
  opened_by TEXT NOT NULL DEFAULT ''
) STRICT;

-- Each act upon the register, one line of JSON chained by SHA-256. Never changed.
CREATE TABLE identity_audit(
  seq INTEGER NOT NULL PRIMARY KEY,
  line TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
