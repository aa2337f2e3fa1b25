package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"grattoir/sync/wire"
)

// A terminal whose journal contradicts the one that is held here is frozen until a person
// has looked: its card was put back or copied, or its disk lies. The way back is a journal
// epoch that the person agrees to. The terminal then reads its own entries again, and pays
// only after that.

// Recover agrees that a frozen terminal reads its journal again from here and goes on in
// a new epoch, with the key it has. It is for a card that was put back to an earlier
// state; where another device may have the key, Suspend and AddTerminal are. It gives the
// epoch. The errors are ErrNotFound, and ErrRefused for a terminal that is not frozen.
func (c *Central) Recover(ctx context.Context, name string) (epoch int64, err error) {
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var state TerminalState
		var frozen wire.Stop
		var head, acked int64
		err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING state, frozen, head_epoch, ack_epoch, recover_epoch", name).
			Scan(&state, &frozen, &head, &acked, &epoch)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", name, ErrNotFound)
		case err != nil:
			return err
		case frozen == "" && state == Suspended:
			return fmt.Errorf("terminal %s was suspended by a person: %w: give it a new code, central terminal add %s", name, ErrRefused, name)
		case frozen == "":
			return fmt.Errorf("terminal %s is not frozen: %w: there is nothing to come back from", name, ErrRefused)
		}
		epoch = max(epoch, head+1, acked+1)
		_, err = tx.ExecContext(ctx, "UPDATE terminals SET state = $1, reason = '', recover_epoch = $2, runs = '[]' WHERE name = $3", Enrolled, epoch, name)
		return err
	})
	if err == nil {
		c.opt.Log.Warn("terminal may read its journal again", "terminal", name, "epoch", epoch)
	}
	return epoch, err
}

// stopped notes what a hello says stops its terminal, and gives the epoch that a person
// has agreed to, 0 for none. A person has agreed also by enrolling a device anew: its
// ledger may be an empty one.
func (c *Central) stopped(ctx context.Context, tx *sql.Tx, name, now string, h wire.Hello) (epoch int64, err error) {
	var frozen wire.Stop
	var acked int64
	var fresh bool
	err = tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING frozen, ack_epoch, recover_epoch, fresh_epoch", name).Scan(&frozen, &acked, &epoch, &fresh)
	if err != nil {
		return 0, err
	}
	if h.Stopped == "" {
		if frozen != "" && epoch > 0 && h.Head.Epoch >= epoch { // it is back
			_, err = tx.ExecContext(ctx, "UPDATE terminals SET frozen = '', frozen_at = '' WHERE name = $1", name)
		}
		return 0, err
	}
	if fresh && epoch <= h.Head.Epoch {
		epoch = max(acked, h.Head.Epoch) + 1
	}
	if frozen == "" {
		_, err = tx.ExecContext(ctx, "UPDATE terminals SET frozen = $1, frozen_at = $2, recover_epoch = $3 WHERE name = $4", h.Stopped, now, epoch, name)
	} else {
		_, err = tx.ExecContext(ctx, "UPDATE terminals SET recover_epoch = $1 WHERE name = $2", epoch, name)
	}
	return epoch, err
}

// maxRuns bounds what is remembered of the programs that said hello under one name.
const maxRuns = 4

// run is a program that said hello.
type run struct {
	Name  string `json:"name"`
	Count int64  `json:"count"` // of its newest hello
	Back  int    `json:"back"`  // how often it came back after another one
}

// twoHeads tells whether a hello comes from one of two programs that take turns: two
// devices live under one name, a copied card. A hello that comes late, or twice, counts no
// higher than the one before and proves nothing; one that was on its way when its program
// was stopped comes back once, and never again.
func twoHeads(known []run, h wire.Hello) (now []run, two bool) {
	if h.Run == "" {
		return known, false
	}
	at := slices.IndexFunc(known, func(r run) bool { return r.Name == h.Run })
	if at >= 0 && h.Count <= known[at].Count {
		return known, false
	}
	this := run{Name: h.Run}
	now = slices.Clone(known)
	if at >= 0 {
		this = known[at]
		now = slices.Delete(now, at, at+1)
	}
	this.Count = h.Count
	if at > 0 {
		this.Back++
	}
	now = slices.Insert(now, 0, this)
	return now[:min(len(now), maxRuns)], this.Back > 1
}

// lives holds a hello against those before it, and freezes the terminal when two devices
// live under its name.
func (c *Central) lives(ctx context.Context, tx *sql.Tx, name, now string, h wire.Hello) (*wire.Error, error) {
	var text []byte
	if err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING runs", name).Scan(&text); err != nil {
		return nil, err
	}
	var known []run
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, fmt.Errorf("terminal %s: its programs: %w", name, err)
	}
	known, two := twoHeads(known, h)
	text, err := json.Marshal(slices.Concat([]run{}, known))
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE terminals SET runs = $1 WHERE name = $2", string(text), name); err != nil || !two {
		return nil, err
	}
	return freeze(ctx, tx, name, now, wire.StopTwoHeads, "two devices say hello under this name, in turn: a card was copied")
}

// freeze suspends a terminal until a person has looked.
func freeze(ctx context.Context, tx *sql.Tx, name, now string, why wire.Stop, reason string) (*wire.Error, error) {
	_, err := tx.ExecContext(ctx, "UPDATE terminals SET state = $1, reason = $2, frozen = $3, frozen_at = $4, recover_epoch = 0 WHERE name = $5", Suspended, reason, why, now, name)
	if err == nil {
		_, err = revoke(ctx, tx, name, now, reason)
	}
	return &wire.Error{Kind: wire.KindFork, Text: reason, Stop: why}, err
}

// keepStrays keeps lines that came under numbers which other lines have here, as evidence.
func (in *intake) keepStrays(ctx context.Context, lines []line) error {
	for _, l := range lines {
		_, err := in.tx.ExecContext(ctx, `INSERT INTO strays(terminal, epoch, seq, hash, line, received) VALUES($1, $2, $3, $4, $5, $6)
			ON CONFLICT(terminal, epoch, seq, hash) DO NOTHING`, in.who.name, in.epoch, l.seq, l.hash[:], l.text, in.now)
		if err != nil {
			return err
		}
	}
	return nil
}

// journalAfter gives a terminal the lines of its own journal that are held here, behind a
// place, of one epoch; none when there is nothing more.
func (c *Central) journalAfter(ctx context.Context, name string, epoch, after int64) (wire.JournalRun, error) {
	r := wire.JournalRun{Protocol: wire.Protocol, Lines: []string{}}
	var p wire.Position
	err := c.store.reader().QueryRowContext(ctx, "SELECT ack_epoch, ack_seq, ack_hash FROM terminals WHERE name = $1", name).Scan(&p.Epoch, &p.Seq, &p.Hash)
	if err != nil {
		return r, err
	}
	if r.Acked, err = c.signAck(name, p, c.opt.Now()); err != nil {
		return r, err
	}
	rows, err := c.store.reader().QueryContext(ctx, `SELECT epoch, line FROM entries WHERE terminal = $1 AND (epoch > $2 OR epoch = $2 AND seq > $3) ORDER BY epoch, seq LIMIT $4`,
		name, epoch, after, wire.MaxEntries)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		var of int64
		var text []byte
		if err := rows.Scan(&of, &text); err != nil {
			return r, err
		}
		// JSON may write a byte as six.
		if size += len(text); len(r.Lines) > 0 && (of != r.Epoch || 6*size > wire.MaxAnswer-wire.MaxRequest) {
			break
		}
		r.Epoch, r.Lines = of, append(r.Lines, string(text))
	}
	return r, rows.Err()
}

func (c *Central) serveOwnJournal(w http.ResponseWriter, r *http.Request, who caller) {
	epoch, err := queryNumber(r, "epoch", 1<<53)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	after, err := queryNumber(r, "after", 1<<53)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	run, err := c.journalAfter(r.Context(), who.name, epoch, after)
	c.answer(w, r, run, err)
}
