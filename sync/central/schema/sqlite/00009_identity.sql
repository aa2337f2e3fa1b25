-- +goose Up
-- Why a terminal must not pay until a person has looked, as it told itself or as central
-- found: 'head-behind', 'fork', 'two-heads', '' for nothing; and since when.
ALTER TABLE terminals ADD COLUMN frozen TEXT NOT NULL DEFAULT '';
ALTER TABLE terminals ADD COLUMN frozen_at TEXT NOT NULL DEFAULT '';
-- The journal epoch that a person has agreed to, 0 for none: the terminal reads its
-- entries again and goes on in it.
ALTER TABLE terminals ADD COLUMN recover_epoch INTEGER NOT NULL DEFAULT 0;
-- The programs that said hello under this name, newest first, as JSON: a run that comes
-- back after another one was heard means two live devices.
ALTER TABLE terminals ADD COLUMN runs TEXT NOT NULL DEFAULT '[]';
-- Public half of the key that renews a certificate after its end, PKIX, P-256.
ALTER TABLE terminals ADD COLUMN renewal_key BLOB;
-- The mark of whom the terminal believes, as it last told.
ALTER TABLE terminals ADD COLUMN trust TEXT NOT NULL DEFAULT '';

-- Certificates that are good until they expire. A new enrolment removes the earlier ones.
CREATE TABLE certificates(
  terminal TEXT NOT NULL,
  serial TEXT NOT NULL,
  issued TEXT NOT NULL,
  expires TEXT NOT NULL,
  certificate TEXT NOT NULL,           -- PEM, '' for one of before this table
  how TEXT NOT NULL,                   -- enrolled, renewed, renewed-late
  used TEXT NOT NULL DEFAULT '',       -- first hello with it
  PRIMARY KEY(terminal, serial)
) STRICT, WITHOUT ROWID;
INSERT INTO certificates(terminal, serial, issued, expires, certificate, how, used)
  SELECT name, cert_serial, enrolled, cert_expires, '', 'enrolled', enrolled FROM terminals WHERE cert_serial <> '';

-- Lines that came under a number which another line has here: evidence of a fork.
CREATE TABLE strays(
  terminal TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  line BLOB NOT NULL,
  received TEXT NOT NULL,
  PRIMARY KEY(terminal, epoch, seq, hash)
) STRICT, WITHOUT ROWID;

-- Each suspension, by number: whoever serves a terminal ends it then, in every process.
CREATE TABLE revocations(
  number INTEGER NOT NULL PRIMARY KEY,
  terminal TEXT NOT NULL,
  reason TEXT NOT NULL,
  at TEXT NOT NULL
) STRICT;
INSERT INTO counters(name, value) VALUES('revocations', 0);

-- Who these tables are: the folder has the same name, so that an empty or another
-- database is not taken for them. One row.
CREATE TABLE centrals(
  id TEXT NOT NULL PRIMARY KEY,
  made TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Each time that these tables were put back from a backup.
CREATE TABLE restores(
  at TEXT NOT NULL PRIMARY KEY,
  made TEXT NOT NULL,                  -- when the backup was
  allowed TEXT NOT NULL DEFAULT '',    -- when a person let claims be allowed again, '' for not yet
  why TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- What this central has signed for and does not hold any more, until it came again: its
-- tables were put back. note is its own acknowledgement, as the terminal showed it.
CREATE TABLE losses(
  terminal TEXT NOT NULL PRIMARY KEY,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  note TEXT NOT NULL,
  noticed TEXT NOT NULL
) STRICT, WITHOUT ROWID;
