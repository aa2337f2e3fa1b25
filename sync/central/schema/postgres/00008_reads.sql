-- +goose NO TRANSACTION
-- +goose Up
-- schema/sqlite/00013_reads.sql, which explains them.
CREATE INDEX IF NOT EXISTS feed_audience ON feed(audience, seq);
CREATE INDEX IF NOT EXISTS claims_received ON claims(received, terminal, block_id, currency, amount_minor);
CREATE INDEX IF NOT EXISTS claims_paid ON claims(paid, terminal, block_id, currency, amount_minor);
CREATE INDEX IF NOT EXISTS conflicts_received ON conflicts(received);
CREATE INDEX IF NOT EXISTS looks_day ON looks(day);
CREATE INDEX IF NOT EXISTS sightings_seen ON sightings(seen);
CREATE INDEX IF NOT EXISTS online_claims_asked ON online_claims(asked);
CREATE INDEX IF NOT EXISTS reversals_asked ON reversals(asked);
CREATE INDEX IF NOT EXISTS reversals_decided ON reversals(decided);
