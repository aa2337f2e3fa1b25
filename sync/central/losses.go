package central

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
)

// idFile names central in its folder, as the table centrals does in its database.
const idFile = "central-id"

// recognise holds the folder and its database against each other. An empty database in the
// place of the one that is noted would let every paid ticket be paid again, and one of
// another central has another's payments.
func (c *Central) recognise(ctx context.Context) error {
	path := filepath.Join(c.opt.Dir, idFile)
	text, err := readKeyFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	here := strings.TrimSpace(string(text))
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var there string
		err := tx.QueryRowContext(ctx, "SELECT id FROM centrals ORDER BY id LIMIT 1").Scan(&there)
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		case here != "" && there == "":
			return fmt.Errorf("%w: the database is empty, and this folder's tables had payments: bring the database back, or restore a backup (central restore)", ErrRefused)
		case here != "" && here != there:
			return fmt.Errorf("%w: the database is of another central than this folder", ErrRefused)
		case here == "" && there != "" && c.keys.fresh:
			return fmt.Errorf("%w: the database is of a central whose keys are not in this folder: bring the folder back, or restore a backup (central restore)", ErrRefused)
		}
		if c.id = there; there != "" {
			return nil
		}
		raw := make([]byte, 16)
		if _, err := rand.Read(raw); err != nil {
			return err
		}
		c.id = hex.EncodeToString(raw)
		_, err = tx.ExecContext(ctx, "INSERT INTO centrals(id, made) VALUES($1, $2)", c.id, c.now())
		return err
	})
	if err != nil || here != "" {
		return err
	}
	return writeWhole(path, []byte(c.id+"\n"), 0o600)
}

// Loss is what central has signed for and does not hold any more.
type Loss struct {
	Terminal string    `json:"terminal"`
	Epoch    int64     `json:"epoch"`
	Seq      int64     `json:"seq"` // up to here the terminal has central's signature
	Noticed  time.Time `json:"noticed"`
}

// Losses are those that have not come again, by terminal.
func (c *Central) Losses(ctx context.Context) ([]Loss, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT terminal, epoch, seq, noticed FROM losses ORDER BY terminal")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Loss{}
	for rows.Next() {
		var l Loss
		var at string
		if err := rows.Scan(&l.Terminal, &l.Epoch, &l.Seq, &at); err != nil {
			return nil, err
		}
		if l.Noticed, err = wire.ParseTime(at); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}

// Unsettled tells whether a terminal may have paid what this central does not know,
// because its tables were put back: it was not heard since, or has not sent again what it
// holds a signature for. Until it has, nobody else may be granted its tickets.
func (c *Central) Unsettled(ctx context.Context, terminal string) (bool, error) {
	var n int
	err := c.store.reader().QueryRowContext(ctx, `SELECT (SELECT count(*) FROM losses WHERE terminal = $1)
		+ (SELECT count(*) FROM terminals WHERE name = $1 AND contact < (SELECT coalesce(max(at), '') FROM restores))`, terminal).Scan(&n)
	return n > 0, err
}

// AllowClaims lets central allow again what it held back since its tables were put back,
// because a terminal that was not heard may have been given it before: standing.go has the
// rules. Only a person knows whether those can still pay. The errors include ErrRefused: no tables
// were put back, or, without force, terminals were not heard since, have not told what they
// may pay, or still owe entries.
func (c *Central) AllowClaims(ctx context.Context, why string, force bool) error {
	if why == "" || len(why) > maxAnswer {
		return fmt.Errorf("%w: say who decided it and why, in at most %d bytes", ErrRefused, maxAnswer)
	}
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		p, err := lastPutBack(ctx, tx)
		if err != nil {
			return err
		}
		var n int
		var unheard sql.NullString
		err = tx.QueryRowContext(ctx, `SELECT count(*), min(name) FROM terminals WHERE (state = $1 OR frozen <> '')
			AND (contact < $2 OR tells = 1 AND told <> $2 OR name IN (SELECT terminal FROM losses))`, Enrolled, p.mark).Scan(&n, &unheard)
		switch {
		case err != nil:
			return err
		case n > 0 && !force:
			return fmt.Errorf("%w: %d terminals, the first is %s, were not heard since central was put back, or have not sent again what it lost (central claims waiting)", ErrRefused, n, unheard.String)
		}
		done, err := tx.ExecContext(ctx, "UPDATE restores SET allowed = $1, why = $2 WHERE allowed = ''", c.now(), plain(why))
		return changedOne(done, err, BecauseClaimsAllowed, "claims are allowed already: central was not put back since, or every terminal was heard")
	})
}

// notice holds the acknowledgement that a terminal shows against what is held here. It is
// central's own signature: when it reaches further, these tables were put back.
func (c *Central) notice(ctx context.Context, tx *sql.Tx, name, now, signed string) error {
	n, err := note.Open([]byte(signed), c.keys.verifiers)
	if err != nil {
		return nil // signed by nobody that is known here: it proves nothing
	}
	ack, err := wire.ParseAck(n.Text)
	if err != nil || ack.Terminal != name {
		return nil
	}
	var held wire.Position
	if err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING ack_epoch, ack_seq", name).Scan(&held.Epoch, &held.Seq); err != nil {
		return err
	}
	p := ack.Position
	if p.Epoch < held.Epoch || p.Epoch == held.Epoch && p.Seq <= held.Seq {
		return nil
	}
	c.opt.Log.Warn("central has signed for entries that it does not hold: its tables were put back", "terminal", name, "signed", fmt.Sprintf("%d-%d", p.Epoch, p.Seq), "held", fmt.Sprintf("%d-%d", held.Epoch, held.Seq))
	if p.Epoch > held.Epoch { // it agreed to that epoch before
		if _, err := tx.ExecContext(ctx, "UPDATE terminals SET recover_epoch = $1 WHERE name = $2 AND recover_epoch < $3", p.Epoch, name, p.Epoch); err != nil {
			return err
		}
	}
	// Also where other tools than Restore have put the tables back, nothing is allowed until a
	// person says so; once for each terminal that shows it. Every terminal is asked what it may pay.
	_, err = tx.ExecContext(ctx, `INSERT INTO restores(at, made) SELECT $1, '' WHERE NOT EXISTS (SELECT 1 FROM restores WHERE allowed = '')
		AND NOT EXISTS (SELECT 1 FROM losses WHERE terminal = $2) ON CONFLICT(at) DO NOTHING`, now, name)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO losses(terminal, epoch, seq, note, noticed) VALUES($1, $2, $3, $4, $5)
		ON CONFLICT(terminal) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, note = excluded.note`, name, p.Epoch, p.Seq, plain(signed), now)
	return err
}

// came forgets a loss once all of it is held again.
func (in *intake) came(ctx context.Context, seq int64) error {
	done, err := in.tx.ExecContext(ctx, "DELETE FROM losses WHERE terminal = $1 AND (epoch < $2 OR epoch = $2 AND seq <= $3)", in.who.name, in.epoch, seq)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return allHeard(ctx, in.tx, in.now)
}
