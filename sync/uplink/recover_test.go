package uplink

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// working is a real link whose packs are active and whose block has come.
func working(t *testing.T) *realLink {
	t.Helper()
	r := joinReal(t)
	r.start()
	pass(time.Second)
	<-r.blocks
	files, err := filepath.Glob(filepath.Join(r.opt.Blocks.Dir, "*"+blockSuffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if r.block, err = manifest.Open(t.Context(), files[0], must(manifest.NewKeys(1, r.opt.Identity.SealKeys...))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.block.Close() })
	if _, err := r.real.Deliver(t.Context(), "00399", 10, 19, "T-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.real.Activate(t.Context(), "00399", 10, 19); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	return r
}

// reopen opens the ledger at a path, in place of the one that was closed.
func (r *realLink) reopen(t *testing.T, path string) {
	t.Helper()
	r.ledger = must(ledger.Open(t.Context(), ledger.Options{Path: path, Terminal: "T-1", ClaimKey: must(ledger.ParseClaimKey(r.opt.Identity.ClaimKey)), Sign: r.opt.Identity.Sign,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }}))
	t.Cleanup(func() { _ = r.ledger.Close() })
	r.opt.Ledger = r.ledger
}

// power stops the terminal and closes its ledger.
func (r *realLink) power(t *testing.T) {
	t.Helper()
	r.stop()
	if err := r.ledger.Close(); err != nil {
		t.Fatal(err)
	}
}

func (r *realLink) paid(t *testing.T, c ticket.Code) bool {
	t.Helper()
	p, err := r.ledger.Paid(t.Context(), validate.TicketKey{Block: r.block.Header.Block, Pack: c.Pack, Number: c.Number})
	if err != nil {
		t.Fatal(err)
	}
	return p != nil
}

func (r *realLink) credited(t *testing.T) (n int) {
	t.Helper()
	if err := r.real.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM claims").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTidyingLeavesTheJournalThatIsReadAgain: the files' lane removed it under the journal's
// hands, once in some thirty times, and the terminal then never came back.
func TestTidyingLeavesTheJournalThatIsReadAgain(t *testing.T) {
	s := BlockStore{Dir: t.TempDir(), Quota: 1 << 20}
	path := filepath.Join(s.Dir, ownFile)
	if err := os.WriteFile(path, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.tidy(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestRestoredCardPaysAgainOnlyAfterAPersonAgreedAndNothingTwice is the whole way with the
// real other side: the card is copied after six payments, put back after ten, and pays an
// eleventh with no network before anybody notices.
func TestRestoredCardPaysAgainOnlyAfterAPersonAgreedAndNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := working(t)
		dir := t.TempDir()
		old, whole := filepath.Join(dir, "old.db"), filepath.Join(dir, "whole.db")
		for _, c := range r.winners[:6] {
			r.pays(t, c)
		}
		pass(time.Minute)
		r.power(t)
		text := must(os.ReadFile(filepath.Join(filepath.Dir(r.opt.Blocks.Dir), "ledger.db")))
		for _, path := range []string{old, whole} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.reopen(t, whole)
		r.start()
		for _, c := range r.winners[6:10] {
			r.pays(t, c)
		}
		pass(2 * time.Minute)
		if n := r.credited(t); n != 10 {
			t.Fatalf("%d credited", n)
		}
		r.power(t)

		r.reopen(t, old)
		r.net.cut(true)
		r.start()
		r.pays(t, r.winners[10])
		r.net.cut(false)
		pass(3 * time.Minute)
		s := r.uplink.Status()
		if !s.Suspended() || !Stops(s.Refused) {
			t.Fatalf("a card that was put back goes on: %+v", s)
		}
		at, err := r.real.Terminal(t.Context(), "T-1")
		if err != nil || at.Frozen == "" {
			t.Fatalf("central does not know: %+v %v", at, err)
		}
		r.power(t) // it holds over a restart
		r.reopen(t, old)
		r.start()
		pass(5 * time.Minute)
		if s := r.uplink.Status(); !Stops(s.Refused) || r.ledger.Head().Epoch != 1 {
			t.Fatalf("after a restart: %+v", s)
		}

		if _, err := r.real.Recover(t.Context(), "T-1"); err != nil {
			t.Fatal(err)
		}
		pass(12 * time.Minute)
		s = r.uplink.Status()
		if s.Suspended() || s.Unsent != 0 || r.ledger.Head().Epoch != 2 {
			t.Fatalf("after a person agreed: %+v, head %+v", s, r.ledger.Head())
		}
		for i, c := range r.winners[:11] {
			if !r.paid(t, c) {
				t.Errorf("ticket %d would be paid again", i)
			}
		}
		if _, err := r.ledger.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		r.pays(t, r.winners[11])
		pass(2 * time.Minute)
		if n := r.credited(t); n != 12 {
			t.Errorf("%d of 12 payments are credited", n)
		}
		if at, err := r.real.Terminal(t.Context(), "T-1"); err != nil || at.Frozen != "" || at.Acked.Epoch != 2 || at.Unsent != 0 {
			t.Errorf("%+v %v", at, err)
		}
	})
}

// TestNewCardKnowsWhatTheOldOnePaidBeforeItMayPay: the code of a new enrolment is a
// person's word. The ledger is empty, and hears of its packs only after it has read what
// was paid from them.
func TestNewCardKnowsWhatTheOldOnePaidBeforeItMayPay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := working(t)
		for _, c := range r.winners[:5] {
			r.pays(t, c)
		}
		pass(time.Minute)
		r.power(t)
		if err := r.real.Suspend(t.Context(), "T-1", "its card is broken"); err != nil {
			t.Fatal(err)
		}
		code, err := r.real.AddTerminal(t.Context(), "T-1")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		r.opt.Identity = must(Enrol(t.Context(), EnrolOptions{URL: "https://central.test", Code: code.Code, Dir: filepath.Join(dir, "identity"), Dial: r.net.Dial}))
		r.reopen(t, filepath.Join(dir, "ledger.db"))
		book := &watching{Ledger: r.ledger}
		r.opt.Ledger = book
		r.start()
		pass(3 * time.Minute)
		if s := r.uplink.Status(); s.Suspended() || len(s.Faults) != 0 || r.ledger.Head().Epoch != 2 {
			t.Fatalf("%+v", s)
		}
		for i, c := range r.winners[:5] {
			if !r.paid(t, c) {
				t.Errorf("ticket %d would be paid again", i)
			}
		}
		if book.early {
			t.Error("it heard of its packs while it could still have paid")
		}
		r.pays(t, r.winners[5])
		pass(2 * time.Minute)
		if n := r.credited(t); n != 6 {
			t.Errorf("%d credited", n)
		}
	})
}

// watching looks whether the feed is stored while nothing stops payments and the ledger is
// empty.
type watching struct {
	*ledger.Ledger
	early bool
}

func (w *watching) ApplyFeed(ctx context.Context, items []wire.FeedItem, next int64) error {
	code, err := w.Refused(ctx)
	w.early = w.early || err != nil || code == "" && w.Head().Epoch == 1
	return w.Ledger.ApplyFeed(ctx, items, next)
}

// TestEachStopHasTwoLinesForTheClerk: whatever keeps a terminal from paying is said at the counter.
func TestEachStopHasTwoLinesForTheClerk(t *testing.T) {
	for _, m := range Meanings() {
		wanted := Stops(m.Code) || m.Code == CodeForbidden
		for _, words := range []string{m.ClerkFR, m.ClerkEN} {
			lines := strings.Split(words, "\n")
			if (words != "") != wanted || wanted && len(lines) != 2 {
				t.Errorf("%s: %q", m.Code, words)
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) > 32 {
					t.Errorf("%s: %q has more than 32 columns", m.Code, line)
				}
			}
		}
	}
}
