-- +goose Up
-- The last number given to a row of a table whose numbers have no gaps. Whoever takes one
-- keeps the others waiting until it is committed.
CREATE TABLE counters(
  name TEXT NOT NULL PRIMARY KEY,      -- of the table
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters(name, value) SELECT 'feed', coalesce(max(seq), 0) FROM feed;
INSERT INTO counters(name, value) SELECT 'snapshots', coalesce(max(version), 0) FROM snapshots;
INSERT INTO counters(name, value) SELECT 'identity_requests', coalesce(max(number), 0) FROM identity_requests;
INSERT INTO counters(name, value) SELECT 'identity_audit', coalesce(max(seq), 0) FROM identity_audit;
