-- +goose Up
-- What is asked most must not read a table that grows: a terminal's look at the feed, and
-- reports of some days. The claims' indexes hold all that is added up, so that the claims
-- themselves, which lie by block, are not looked up one by one.
CREATE INDEX feed_audience ON feed(audience, seq);
CREATE INDEX claims_received ON claims(received, terminal, block_id, currency, amount_minor);
CREATE INDEX claims_paid ON claims(paid, terminal, block_id, currency, amount_minor);
CREATE INDEX conflicts_received ON conflicts(received);
CREATE INDEX looks_day ON looks(day);
CREATE INDEX sightings_seen ON sightings(seen);
CREATE INDEX online_claims_asked ON online_claims(asked);
CREATE INDEX reversals_asked ON reversals(asked);
CREATE INDEX reversals_decided ON reversals(decided);
