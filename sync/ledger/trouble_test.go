package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"grattoir/validate"
)

func TestEveryErrorHasItsTrouble(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Trouble
	}{
		{fmt.Errorf("%w: x", ErrGone), TroubleGone},
		{fmt.Errorf("%w: x", ErrDamaged), TroubleDamaged},
		{sqlite3.Error{Code: sqlite3.ErrCorrupt}, TroubleDamaged},
		{fmt.Errorf("%w: %w", ErrNotWritable, sqlite3.Error{Code: sqlite3.ErrNotADB}), TroubleDamaged},
		{sqlite3.Error{Code: sqlite3.ErrFull}, TroubleFull},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: unix.ENOSPC}, TroubleFull},
		{&fs.PathError{Err: unix.EDQUOT}, TroubleFull},
		{fmt.Errorf("%w: %w", ErrNotWritable, errNoRoom), TroubleFull},
		{&fs.PathError{Err: unix.EROFS}, TroubleReadOnly},
		{&fs.PathError{Err: unix.EACCES}, TroubleReadOnly},
		{sqlite3.Error{Code: sqlite3.ErrReadonly}, TroubleReadOnly},
		{sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: unix.EROFS}, TroubleReadOnly},
		{fmt.Errorf("%w: %w", ErrNotWritable, ErrDoubt), TroubleDoubt},
		{errors.Join(fmt.Errorf("%w: %w", ErrNotWritable, errNoRoom), ErrDoubt), TroubleFull},
		{fmt.Errorf("%w: %w", ErrNotWritable, ErrUnaudited), TroubleAudit},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: unix.EIO}, TroubleDisk},
		{ErrTraining, TroubleTraining},
		{errors.New("anything"), TroubleDisk},
	} {
		if got := TroubleOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

const paidTickets = 40

// ruin makes a closed ledger with paid tickets and free pages, and gives its bytes.
func ruin(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	l := openTest(t, options(dir))
	for i := range paidTickets {
		record(t, l, claim(t, i))
	}
	if _, err := l.db.Exec("CREATE TABLE waste(b BLOB); INSERT INTO waste VALUES(zeroblob(40000)); DROP TABLE waste"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// lay puts bytes in the place of a terminal's ledger, beside the note that it had one.
func lay(t *testing.T, text []byte) Options {
	t.Helper()
	opt := options(t.TempDir())
	opt.AuditFirst = true
	if err := errors.Join(os.WriteFile(opt.Path, text, 0o600), os.WriteFile(opt.Path+".lock", []byte("ledger of terminal T-1 exists\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return opt
}

// come opens what there is, as the daemon does.
func come(t *testing.T, opt Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), opt)
	if err != nil {
		if l, err = Salvage(context.Background(), opt, err); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// paysNothingTwice audits a ledger and tries to pay every ticket that was paid, before
// and after. With damage that was found nothing at all may be paid.
func paysNothingTwice(t *testing.T, l *Ledger) (found error) {
	t.Helper()
	ctx := context.Background()
	try := func(number int) error {
		c := claim(t, number)
		c.ID = strings.Repeat("e", 32)
		_, err := l.Record(ctx, c)
		return err
	}
	if err := try(0); err == nil {
		t.Fatal("a paid ticket was paid before the audit")
	}
	found = l.Audit(ctx)
	for i := range paidTickets {
		if err := try(i); err == nil {
			t.Fatalf("ticket %d was paid again", i)
		}
	}
	err := try(500)
	if found == nil && err != nil {
		t.Errorf("nothing was found, and nothing is paid: %v", err)
	}
	if found != nil && (err == nil || l.Writable() == nil || TroubleOf(l.Writable()) != TroubleDamaged && TroubleOf(l.Writable()) != TroubleGone) {
		t.Errorf("found %v, and yet: %v, %v", found, err, l.Writable())
	}
	return found
}

// TestNoDamagedPageLetsATicketBePaidTwice puts garbage or zeros in the place of every
// page of the file in turn. Only garbage in a page that is free and empty is nothing to
// find: then the terminal pays on.
func TestNoDamagedPageLetsATicketBePaidTwice(t *testing.T) {
	text := ruin(t)
	rng := rand.New(rand.NewPCG(1, 4))
	unnoticed := 0
	for page := range len(text) / 4096 {
		for _, kind := range []string{"garbage", "zeros"} {
			t.Run(fmt.Sprintf("%s in page %d", kind, page+1), func(t *testing.T) {
				bad := bytes.Clone(text)
				for i := page * 4096; i < (page+1)*4096; i++ {
					bad[i] = 0
					if kind == "garbage" {
						bad[i] = byte(rng.Uint32())
					}
				}
				l := come(t, lay(t, bad))
				defer l.Close()
				opened, first := l.sickness() == nil, l.findable(context.Background())
				switch found := paysNothingTwice(t, l); {
				case found == nil:
					unnoticed++
				case opened && first == nil:
					t.Errorf("it would be found only after payments had begun: %v", found)
				}
			})
		}
	}
	// The blob's ten pages are free: one holds the list of the others.
	if unnoticed < 2 || unnoticed > 2*10 {
		t.Errorf("%d damaged pages were not noticed", unnoticed)
	}
	t.Logf("%d pages, each once garbage and once zeros; %d were free and empty", len(text)/4096, unnoticed)
}

// TestNoFlippedByteLetsATicketBePaidTwice changes single bytes, which leave a page's form
// whole as often as not.
func TestNoFlippedByteLetsATicketBePaidTwice(t *testing.T) {
	text := ruin(t)
	rng := rand.New(rand.NewPCG(2, 4))
	times, found := 400, 0
	if raceEnabled {
		times = 100
	}
	for range times {
		bad := bytes.Clone(text)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		l := come(t, lay(t, bad))
		if paysNothingTwice(t, l) != nil {
			found++
		}
		if err := l.Close(); err != nil && found == 0 {
			t.Error(err)
		}
		if t.Failed() {
			break
		}
	}
	if found == 0 || found == times {
		t.Errorf("%d of %d changes found", found, times)
	}
	t.Logf("%d of %d flipped bits changed something, each was found", found, times)
}

func TestDamageThatAReadMeetsStopsPaymentsAtOnce(t *testing.T) {
	text := ruin(t)
	db, err := sql.Open("sqlite3", "file:"+lay(t, text).Path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var page int
	if err := db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'attempts'").Scan(&page); err != nil {
		t.Fatal(err)
	}
	for i := (page - 1) * 4096; i < page*4096; i++ {
		text[i] = 0xff
	}
	opt := lay(t, text)
	opt.AuditFirst = false
	l := openTest(t, opt)
	record(t, l, claim(t, 300))
	if _, err := l.Attempts(context.Background(), claim(t, 1).Ticket); err == nil {
		t.Fatal("the page is whole")
	}
	if _, err := l.Record(context.Background(), claim(t, 301)); TroubleOf(err) != TroubleDamaged || TroubleOf(l.Writable()) != TroubleDamaged {
		t.Fatalf("%v", err)
	}
	if r, err := l.Paid(context.Background(), claim(t, 300).Ticket); err != nil || r == nil {
		t.Errorf("what can be read is not: %v", err)
	}
}

// TestSalvagedLedgerAnswersAndWritesNothing: a page of the slips is bad. Whether a ticket
// is paid, and the journal's end, can still be read; no byte changes.
func TestSalvagedLedgerAnswersAndWritesNothing(t *testing.T) {
	ctx := context.Background()
	text := ruin(t)
	opt := lay(t, text)
	cause := fmt.Errorf("%w: for the test", ErrDamaged)
	l, err := Salvage(ctx, opt, cause)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Salvage(ctx, opt, cause); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	if r, err := l.Paid(ctx, claim(t, 7).Ticket); err != nil || r == nil || r.Number.Seq != 8 {
		t.Errorf("%+v %v", r, err)
	}
	if p, err := l.HeadPosition(ctx); err != nil || p.Seq != paidTickets {
		t.Errorf("%+v %v", p, err)
	}
	if _, lines, _, err := l.Pending(ctx, 100); err != nil || len(lines) != paidTickets {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	_, failed := l.Failed(ctx, claim(t, 7).Ticket)
	_, copied := l.BeginCopy(ctx, validate.EntryNumber{Epoch: 1, Seq: 1})
	_, shift := l.OpenShift(ctx, "marie", 0, "EUR")
	for what, err := range map[string]error{"failed": failed, "copy": copied, "shift": shift, "mark": l.Mark(ctx, validate.EntryNumber{Epoch: 1, Seq: 1}, validate.Printed),
		"refused": l.SetRefused(ctx, "C4"), "audit": l.Audit(ctx)} {
		if err == nil {
			t.Errorf("%s was stored", what)
		}
	}
	if _, err := l.Record(ctx, claim(t, 500)); !errors.Is(err, ErrNotWritable) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if list, err := l.Unprinted(ctx); err != nil || len(list) != 0 {
		t.Errorf("%d slips are to be printed that cannot be marked: %v", len(list), err)
	}
	after, err := os.ReadFile(opt.Path)
	if err != nil || !bytes.Equal(after, text) {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestSalvagedRuinAnswersWithErrors: of a file that is no database at all nothing is
// known, and nothing is made in its place.
func TestSalvagedRuinAnswersWithErrors(t *testing.T) {
	ctx := context.Background()
	for name, text := range map[string][]byte{"text": []byte(strings.Repeat("no database ", 1000)), "empty": {}, "gone": nil} {
		t.Run(name, func(t *testing.T) {
			opt := lay(t, text)
			if text == nil {
				if err := os.Remove(opt.Path); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(ctx, opt)
			if err == nil {
				t.Fatal("it opens")
			}
			want := TroubleDamaged
			if len(text) == 0 {
				want = TroubleGone
			}
			if got := TroubleOf(err); got != want {
				t.Errorf("%s: %v", got, err)
			}
			l, err := Salvage(ctx, opt, err)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err := l.Paid(ctx, claim(t, 1).Ticket); err == nil {
				t.Error("it knows what is paid")
			}
			if TroubleOf(l.Writable()) != want {
				t.Errorf("%v", l.Writable())
			}
		})
	}
}

func TestLedgerTakenAwayWhileInUseStopsPayments(t *testing.T) {
	opt := options(t.TempDir())
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	if err := os.Rename(opt.Path, opt.Path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := l.Writable(); TroubleOf(err) != TroubleGone {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(opt.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Writable(); TroubleOf(err) != TroubleGone {
		t.Errorf("another in its place: %v", err)
	}
}

// TestClaimThatIsNotWhereItIsLookedForIsFoundFirst: the rows are whole for SQLite, and
// one ticket would win again.
func TestClaimThatIsNotWhereItIsLookedForIsFoundFirst(t *testing.T) {
	for name, sabotage := range map[string]string{
		"another ticket": "UPDATE claims SET ticket = 999 WHERE seq = 2",
		"another block":  "UPDATE claims SET block = x'ab000000000000000000000000000001' WHERE seq = 2",
		"another round":  "UPDATE claims SET round = 1 WHERE seq = 2",
		"another kind":   "UPDATE entries SET kind = 'clbim' WHERE seq = 2",
		"no row":         "DELETE FROM claims WHERE seq = 2",
	} {
		l := openTest(t, options(t.TempDir()))
		for i := range 3 {
			record(t, l, claim(t, i))
		}
		if err := l.findable(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"DROP TRIGGER entries_stay", "DROP TRIGGER claims_stay", "DROP TRIGGER claims_kept", sabotage} {
			if _, err := l.db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.findable(context.Background()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsPaidBeforeTheAudit(t *testing.T) {
	opt := options(t.TempDir())
	opt.AuditFirst = true
	l := openTest(t, opt)
	if _, err := l.Record(context.Background(), claim(t, 1)); TroubleOf(err) != TroubleAudit || TroubleOf(l.Writable()) != TroubleAudit {
		t.Fatalf("%v", err)
	}
	if err := l.Audit(context.Background()); err != nil {
		t.Fatal(err)
	}
	record(t, l, claim(t, 1))
}
