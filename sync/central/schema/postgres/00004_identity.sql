-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00009_identity.sql, which explains them.
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS frozen TEXT NOT NULL DEFAULT '';
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS frozen_at TEXT NOT NULL DEFAULT '';
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS recover_epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS runs TEXT NOT NULL DEFAULT '[]';
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS renewal_key BYTEA;
ALTER TABLE terminals ADD COLUMN IF NOT EXISTS trust TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS certificates(
  terminal TEXT NOT NULL,
  serial TEXT NOT NULL,
  issued TEXT NOT NULL,
  expires TEXT NOT NULL,
  certificate TEXT NOT NULL,
  how TEXT NOT NULL,
  used TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(terminal, serial)
);
INSERT INTO certificates(terminal, serial, issued, expires, certificate, how, used)
  SELECT name, cert_serial, enrolled, cert_expires, '', 'enrolled', enrolled FROM terminals WHERE cert_serial <> ''
  ON CONFLICT(terminal, serial) DO NOTHING;

CREATE TABLE IF NOT EXISTS strays(
  terminal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  hash BYTEA NOT NULL,
  line BYTEA NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq, hash)
);

CREATE TABLE IF NOT EXISTS revocations(
  number BIGINT NOT NULL PRIMARY KEY,
  terminal TEXT NOT NULL,
  reason TEXT NOT NULL,
  at TEXT NOT NULL
);
INSERT INTO counters(name, value) VALUES('revocations', 0) ON CONFLICT(name) DO NOTHING;

CREATE TABLE IF NOT EXISTS centrals(
  id TEXT NOT NULL PRIMARY KEY,
  made TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS restores(
  at TEXT NOT NULL PRIMARY KEY,
  made TEXT NOT NULL,
  allowed TEXT NOT NULL DEFAULT '',
  why TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS losses(
  terminal TEXT NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  note TEXT NOT NULL,
  noticed TEXT NOT NULL
);
