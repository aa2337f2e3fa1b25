-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00014_console.sql, which explains them.
CREATE TABLE IF NOT EXISTS users(
  name TEXT NOT NULL PRIMARY KEY,
  role TEXT NOT NULL,
  suspended BIGINT NOT NULL DEFAULT 0,
  password TEXT NOT NULL,
  added TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS sessions(
  token BYTEA NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  began TEXT NOT NULL,
  used TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_name ON sessions(name);

ALTER TABLE identity_requests ADD COLUMN IF NOT EXISTS agreed TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_requests ADD COLUMN IF NOT EXISTS agreed_by TEXT NOT NULL DEFAULT '';
