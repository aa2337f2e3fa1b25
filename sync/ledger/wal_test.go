package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"

	"grattoir/validate"
	"grattoir/validate/money"
)

// TestLogStaysSmall: a start after a power cut reads the whole log, and a card has little
// room. It is brought into the file every 200 pages; a reader that stays keeps it from
// being begun anew, and it is small again once that reader has gone.
func TestLogStaysSmall(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	const few, limit = 2 << 20, 4 << 20 // bytes; the second is journal_size_limit
	if largest := payMany(t, l, 300); largest > few {
		t.Errorf("with no reader the log grew to %d bytes", largest)
	}
	tx, err := l.read.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var entries int
	if err := tx.QueryRow("SELECT count(*) FROM entries").Scan(&entries); err != nil {
		t.Fatal(err)
	}
	kept := payMany(t, l, 300)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if kept <= limit {
		t.Errorf("the reader kept nothing: %d bytes", kept)
	}
	payMany(t, l, 60)
	if size := logSize(t, l); size > limit {
		t.Errorf("after the reader had gone the log has %d bytes", size)
	}
}

func logSize(t testing.TB, l *Ledger) int64 {
	t.Helper()
	info, err := os.Stat(l.opt.Path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// payMany pays n tickets and gives the largest size that the log had after one of them.
func payMany(t testing.TB, l *Ledger, n int) (largest int64) {
	t.Helper()
	for range n {
		next := l.Head().Seq
		c := claim(t, int(next%900))
		c.ID, c.Ticket.Pack, c.Amount = fmt.Sprintf("%032x", next+1), uint32(200+next/900), money.Amount(next+1)
		c.Slip.Pack = fmt.Sprintf("%07d", c.Ticket.Pack)
		r := record(t, l, c)
		if err := l.Mark(context.Background(), r.Number, validate.Printed); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, logSize(t, l))
	}
	return largest
}
