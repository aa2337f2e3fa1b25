package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/sync/wire"
)

// Catalogue is a catalogue of games that terminals get by the snapshot.
type Catalogue struct {
	SHA256    string    `json:"sha256"`
	Size      int64     `json:"size"`  // bytes
	Games     int       `json:"games"` // in it
	Operator  string    `json:"operator"`
	Published time.Time `json:"published"`
}

// PublishCatalogue lists a catalogue in a new snapshot, in the place of the one before.
// Whoever publishes has read it (configs.DecodeCatalogue); here it is bytes. The same again
// is the newest again. Errors include ErrRefused.
func (c *Central) PublishCatalogue(ctx context.Context, text []byte, games int, operator string) (Catalogue, error) {
	fail := func(err error) (Catalogue, error) { return Catalogue{}, fmt.Errorf("publish the catalogue: %w", err) }
	switch {
	case operator == "" || len(operator) > 64:
		return fail(fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused))
	case len(text) == 0 || len(text) > wire.MaxCatalogue || !utf8.Valid(text) || strings.Contains(string(text), "\x00"):
		return fail(fmt.Errorf("%w: %d bytes, want a text of at most %d", ErrRefused, len(text), wire.MaxCatalogue))
	}
	sum := sha256.Sum256(text)
	k := Catalogue{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(text)), Games: games, Operator: operator, Published: c.opt.Now().UTC().Truncate(time.Millisecond)}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO catalogues(sha256, text, games, operator, published) VALUES($1, $2, $3, $4, $5)
			ON CONFLICT(sha256) DO UPDATE SET operator = excluded.operator, published = excluded.published`, k.SHA256, string(text), games, operator, wire.FormatTime(k.Published))
		if err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("catalogue published", "sha256", k.SHA256, "games", games, "operator", operator)
	return k, nil
}

// newestCatalogue orders them: the first is in the snapshot.
const newestCatalogue = " FROM catalogues ORDER BY published DESC, sha256 LIMIT 1"

// CatalogueText is the catalogue that the snapshot lists, or ErrNotFound.
func (c *Central) CatalogueText(ctx context.Context) (k Catalogue, text string, err error) {
	var published string
	err = c.store.reader().QueryRowContext(ctx, "SELECT sha256, text, games, operator, published"+newestCatalogue).Scan(&k.SHA256, &text, &k.Games, &k.Operator, &published)
	if errors.Is(err, sql.ErrNoRows) {
		return k, "", fmt.Errorf("catalogue: %w: central catalogue publish", ErrNotFound)
	}
	if err == nil {
		k.Size = int64(len(text))
		k.Published, err = wire.ParseTime(published)
	}
	return k, text, err
}

// Software is a release that terminals hear of by the snapshot.
type Software struct {
	wire.Release
	Operator  string    `json:"operator"`
	Announced time.Time `json:"announced"`
	Withdrawn time.Time `json:"withdrawn,omitzero"`
}

// Announce names a release in a new snapshot. Its bytes are fetched from elsewhere: the
// hash says which they are. A version that was announced with other bytes is refused.
func (c *Central) Announce(ctx context.Context, r wire.Release, operator string) (Software, error) {
	fail := func(err error) (Software, error) { return Software{}, fmt.Errorf("announce: %w", err) }
	if err := r.Check(); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	}
	if operator == "" || len(operator) > 64 {
		return fail(fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused))
	}
	s := Software{Release: r, Operator: operator, Announced: c.opt.Now().UTC().Truncate(time.Millisecond)}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, `INSERT INTO releases(name, version, sha256, size, operator, announced) VALUES($1, $2, $3, $4, $5, $6)
			ON CONFLICT(name, version) DO UPDATE SET withdrawn = '' WHERE releases.sha256 = excluded.sha256`, r.Name, r.Version, r.SHA256, r.Size, operator, wire.FormatTime(s.Announced))
		if err := changedOne(done, err, BecauseReleaseOther, "this version was announced with other bytes"); err != nil {
			return err
		}
		list, err := listedSoftware(ctx, tx)
		if err == nil && len(list) > wire.MaxReleases {
			err = fmt.Errorf("%w: %d releases are named, at most %d: withdraw old ones", ErrRefused, len(list), wire.MaxReleases)
		}
		if err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("software announced", "name", r.Name, "version", r.Version, "sha256", r.SHA256, "operator", operator)
	return s, nil
}

// WithdrawSoftware takes a release out of the snapshot. The errors include ErrNotFound.
func (c *Central) WithdrawSoftware(ctx context.Context, name, version string) error {
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, "UPDATE releases SET withdrawn = $1 WHERE name = $2 AND version = $3 AND withdrawn = ''", c.now(), name, version)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("%w: no such release is named (central software list)", ErrNotFound), err)
		}
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("withdraw software %.40q %.40q: %w", name, version, err)
	}
	return nil
}

// SoftwareList lists what was announced, by name, the newest first.
func (c *Central) SoftwareList(ctx context.Context) ([]Software, error) {
	list := []Software{}
	err := eachRow(ctx, c.store.reader(), "SELECT name, version, sha256, size, operator, announced, withdrawn FROM releases ORDER BY name, announced DESC, version", func(row scanner) error {
		var s Software
		var announced, withdrawn string
		err := row.Scan(&s.Name, &s.Version, &s.SHA256, &s.Size, &s.Operator, &announced, &withdrawn)
		if err == nil {
			s.Announced, err = wire.ParseTime(announced)
		}
		if err == nil && withdrawn != "" {
			s.Withdrawn, err = wire.ParseTime(withdrawn)
		}
		list = append(list, s)
		return err
	})
	return list, err
}

func listedSoftware(ctx context.Context, q querier) ([]wire.Release, error) {
	var list []wire.Release
	err := eachRow(ctx, q, "SELECT name, version, sha256, size FROM releases WHERE withdrawn = '' ORDER BY name, version", func(row scanner) error {
		var r wire.Release
		err := row.Scan(&r.Name, &r.Version, &r.SHA256, &r.Size)
		list = append(list, r)
		return err
	})
	return list, err
}

// listedCatalogue is what the snapshot says of the catalogue and of software.
func listedCatalogue(ctx context.Context, tx *sql.Tx) (k wire.CatalogueFile, software []wire.Release, err error) {
	var text string
	err = tx.QueryRowContext(ctx, "SELECT sha256, text"+newestCatalogue).Scan(&k.SHA256, &text)
	if k.Size = int64(len(text)); errors.Is(err, sql.ErrNoRows) {
		k, err = wire.CatalogueFile{}, nil
	}
	if err == nil {
		software, err = listedSoftware(ctx, tx)
	}
	return k, software, err
}

// serveCatalogue gives a catalogue by its hash.
func (c *Central) serveCatalogue(w http.ResponseWriter, r *http.Request, _ caller) {
	c.serveText(w, r, "catalogue", "SELECT text FROM catalogues WHERE sha256 = $1")
}
