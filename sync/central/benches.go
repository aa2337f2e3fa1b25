package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"grattoir/sync/wire"
	slip "grattoir/validate/proof"
)

// BenchRecord is how a terminal left the bench, as central keeps it.
type BenchRecord struct {
	Received    time.Time      `json:"received"`    // central's clock
	Fingerprint string         `json:"fingerprint"` // of the device's key, which signed it
	Bench       wire.Bench     `json:"bench"`
	Note        wire.BenchNote `json:"note"` // exact, for whoever wants to verify it
}

// Benches are a terminal's bench records, the newest first. Whether they are signed was
// verified when they came. The errors include ErrNotFound.
func (c *Central) Benches(ctx context.Context, name string) ([]BenchRecord, error) {
	if _, err := c.Terminal(ctx, name); err != nil {
		return nil, err
	}
	rows, err := c.store.reader().QueryContext(ctx, "SELECT received, text, signature, public_key FROM benches WHERE terminal = $1 ORDER BY received DESC, hash", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []BenchRecord{}
	for rows.Next() {
		var r BenchRecord
		var received string
		var spki []byte
		if err := rows.Scan(&received, &r.Note.Text, &r.Note.Signature, &spki); err != nil {
			return nil, err
		}
		key, err := parseKey(spki)
		if err != nil {
			return nil, fmt.Errorf("bench record of %s: %w", name, err)
		}
		r.Fingerprint = slip.Key{Terminal: name, Public: key}.Fingerprint()
		if r.Received, err = wire.ParseTime(received); err != nil {
			return nil, fmt.Errorf("bench record of %s: %w", name, err)
		}
		if r.Bench, err = r.Note.Open(); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// keepBench keeps the bench record that came with a hello. One that the device's present
// key has not signed, or of another terminal, is not kept and answered all the same: told
// again it would be no better. It returns the hash to answer with.
func (c *Central) keepBench(ctx context.Context, tx *sql.Tx, name, now string, n *wire.BenchNote) (hash string, err error) {
	if n == nil {
		return "", nil
	}
	sum := sha256.Sum256([]byte(n.Text))
	hash = hex.EncodeToString(sum[:])
	var spki []byte
	if err := tx.QueryRowContext(ctx, "SELECT public_key FROM terminals WHERE name = $1", name).Scan(&spki); err != nil {
		return hash, err
	}
	key, err := parseKey(spki)
	if err != nil {
		return hash, err
	}
	b, unread := n.Open()
	if unread != nil || b.Terminal != name || !ecdsa.VerifyASN1(key, sum[:], n.Signature) {
		c.opt.Log.Warn("a bench record is not this terminal's, or not signed by its key: not kept", "terminal", name, "err", unread)
		return hash, nil
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO benches(terminal, hash, received, text, signature, public_key) VALUES($1, $2, $3, $4, $5, $6)
		ON CONFLICT(terminal, hash) DO NOTHING`, name, hash, now, n.Text, n.Signature, spki)
	return hash, err
}
