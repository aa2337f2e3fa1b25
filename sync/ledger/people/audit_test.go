package people

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/validate"
)

// notes is what a journal notes of an audit at some of its lines, as CheckAudit gets it.
type notes []ledger.NotedAudit

func (n *notes) take(t testing.TB, head func(context.Context) (ledger.AuditHead, error)) {
	t.Helper()
	h, err := head(context.Background())
	if err != nil || h.Seq == 0 {
		t.Fatalf("%+v %v", h, err)
	}
	*n = append(*n, ledger.NotedAudit{Entry: validate.EntryNumber{Epoch: 1, Seq: int64(10 * (len(*n) + 1))}, AuditHead: h})
}

func check(t testing.TB, path string, n notes) AuditCheck {
	t.Helper()
	c, err := CheckAudit(context.Background(), path, "T-1", n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCutOrRewrittenAuditShowsAgainstTheJournal: the operators' log and the register's are
// whole for themselves after each of these, and the journal tells all the same.
func TestCutOrRewrittenAuditShowsAgainstTheJournal(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	var n notes
	n.take(t, s.AuditHead)
	must(t, s.Suspend(ctx, as(t, "anne", managerPIN), "marie"))
	n.take(t, s.AuditHead)
	last := n[1].Seq
	must(t, s.Close())

	if c := check(t, opt.Path, n); c.Broken != nil || c.Audit != "operators" || c.Lines != last || c.Noted != last {
		t.Fatalf("a whole audit: %+v", c)
	}
	other := n[0]
	other.Audit = "identities"
	if c := check(t, opt.Path, append(notes{other}, n...)); c.Broken != nil {
		t.Fatalf("a note of the other audit counts: %v", c.Broken)
	}
	if c := check(t, opt.Path, nil); c.Broken != nil || c.Noted != 0 || c.Lines != last {
		t.Fatalf("an audit that the journal does not note yet: %+v", c)
	}

	for name, spoil := range map[string]func(*Staff){
		"cut off": func(s *Staff) {
			_, err := s.file.DB.Exec("DROP TRIGGER audit_kept; DELETE FROM audit WHERE seq = ?", last)
			must(t, err)
		},
		"all cut off": func(s *Staff) {
			_, err := s.file.DB.Exec("DROP TRIGGER audit_kept; DELETE FROM audit")
			must(t, err)
		},
		"cut off and gone on": func(s *Staff) {
			_, err := s.file.DB.Exec("DROP TRIGGER audit_kept; DELETE FROM audit WHERE seq = ?; UPDATE operators SET suspended = 0", last)
			must(t, err)
			must(t, s.SetPIN(ctx, as(t, "marie", clerkPIN), "marie", pin(t, "7193")))
		},
	} {
		copied := staffOptions(t.TempDir(), w)
		clone(t, opt.Path, copied.Path)
		s := openStaff(t, copied)
		spoil(s)
		must(t, s.Verify(ctx))        // for itself it is whole
		c := check(t, copied.Path, n) // while the program has it open
		if !errors.Is(c.Broken, ErrDamaged) || !strings.Contains(c.Broken.Error(), "1-000020") || !strings.Contains(c.Broken.Error(), "journal") {
			t.Errorf("%s: %+v", name, c)
		}
		must(t, s.Close())
		if c := check(t, copied.Path, n); !errors.Is(c.Broken, ErrDamaged) {
			t.Errorf("%s, closed: %+v", name, c)
		}
	}
}

// TestRegistersAuditIsHeldAgainstTheJournal: the same for the register of identities.
func TestRegistersAuditIsHeldAgainstTheJournal(t *testing.T) {
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	recordOf(t, r, identity(), payment(1, 2000_00))
	var n notes
	n.take(t, r.AuditHead)
	if c := check(t, opt.Path, n); c.Broken != nil || c.Audit != "identities" || c.Noted != n[0].Seq {
		t.Fatalf("%+v", c)
	}
	_, err := r.file.DB.Exec("DROP TRIGGER audit_kept; DELETE FROM audit WHERE seq = ?", n[0].Seq)
	must(t, err)
	if c := check(t, opt.Path, n); !errors.Is(c.Broken, ErrDamaged) {
		t.Fatalf("%+v", c)
	}
}

// TestAuditOfAnotherFileIsNoAudit: what is no such file, or another terminal's, is told.
func TestAuditOfAnotherFileIsNoAudit(t *testing.T) {
	ctx := context.Background()
	s, opt := staffed(t, newWorld())
	must(t, s.Close())
	if c, err := CheckAudit(ctx, opt.Path, "T-2", nil); err != nil || !errors.Is(c.Broken, ErrDamaged) {
		t.Errorf("of another terminal: %+v %v", c, err)
	}
	text := filepath.Join(t.TempDir(), "people.db")
	must(t, os.WriteFile(text, []byte("people"), 0o600))
	if _, err := CheckAudit(ctx, text, "T-1", nil); err == nil {
		t.Error("a text is an audit")
	}
	if _, err := CheckAudit(ctx, text+".none", "T-1", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
