-- +goose Up
-- Who may use the console. The table identity_audit is from here on the audit of everything
-- that is looked at, exported or done there, and still of the register: its chain goes on.
CREATE TABLE users(
  name TEXT NOT NULL PRIMARY KEY,
  role TEXT NOT NULL,                  -- viewer, operator, security, auditor
  suspended INTEGER NOT NULL DEFAULT 0,
  password TEXT NOT NULL,              -- Argon2id with its cost and salt, as $argon2id$v=19$m=,t=,p=$salt$key
  added TEXT NOT NULL
) STRICT;

-- Who is signed in. A suspension, another role and another password remove a user's rows.
CREATE TABLE sessions(
  token BLOB NOT NULL PRIMARY KEY,     -- SHA-256 of what the browser holds
  name TEXT NOT NULL,
  began TEXT NOT NULL,
  used TEXT NOT NULL                   -- within a minute
) STRICT;
CREATE INDEX sessions_name ON sessions(name);

-- A second person agrees to a look at an identity; the one who asked then looks, once.
ALTER TABLE identity_requests ADD COLUMN agreed TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_requests ADD COLUMN agreed_by TEXT NOT NULL DEFAULT '';
