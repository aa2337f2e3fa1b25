package central

import (
	"context"
	"time"

	"grattoir/sync/wire"
)

// Certificate is a certificate of a terminal that is good until it expires.
type Certificate struct {
	Serial  string    `json:"serial"`
	How     string    `json:"how"` // enrolled, renewed, or renewed-late after the one before had ended
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	Used    time.Time `json:"used,omitzero"` // first hello with it, zero before
}

// Certificates are those of a terminal that are good, the newest first. An old and a new
// one overlap.
func (c *Central) Certificates(ctx context.Context, name string) ([]Certificate, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT serial, how, issued, expires, used FROM certificates WHERE terminal = $1 AND expires > $2 ORDER BY issued DESC, serial", name, c.now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Certificate{}
	for rows.Next() {
		var x Certificate
		var issued, expires, used string
		if err := rows.Scan(&x.Serial, &x.How, &issued, &expires, &used); err != nil {
			return nil, err
		}
		if x.Issued, err = wire.ParseTime(issued); err != nil {
			return nil, err
		}
		if x.Expires, err = wire.ParseTime(expires); err != nil {
			return nil, err
		}
		if used != "" {
			if x.Used, err = wire.ParseTime(used); err != nil {
				return nil, err
			}
		}
		list = append(list, x)
	}
	return list, rows.Err()
}
