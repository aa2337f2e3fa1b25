package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// held is what central holds of a journal, with its signature over the end.
func held(t testing.TB, l *Ledger) Restoring {
	t.Helper()
	var all [][]byte
	for epoch := int64(1); epoch <= l.Head().Epoch; epoch++ {
		if err := l.Lines(t.Context(), epoch, 0, func(_ int64, line []byte) error { all = append(all, line); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return Restoring{Acked: countersign(t, ackAt(t, l, l.Head().Seq, noon)), Epoch: l.Head().Epoch + 1, Lines: func(use func([]byte) error) error {
		for _, line := range all {
			if err := use(line); err != nil {
				return err
			}
		}
		return nil
	}}
}

// countersign puts a signature under an acknowledgement.
func countersign(t testing.TB, a wire.Ack) wire.Ack {
	t.Helper()
	private, _, err := note.GenerateKey(nil, "central")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: a.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	a.Note = string(signed)
	return a
}

// card copies a closed ledger's file into a folder of its own, as a card is copied.
func card(t testing.TB, l *Ledger) Options {
	t.Helper()
	opt := options(t.TempDir())
	text, err := os.ReadFile(l.opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(opt.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return opt
}

// putBack is a ledger with 10 claims as central holds it, and the same one as its card was
// after 6 of them, from which it has paid the tickets named.
func putBack(t *testing.T, since ...int) (central Restoring, l *Ledger) {
	t.Helper()
	whole := openTest(t, options(t.TempDir()))
	for n := range 6 {
		record(t, whole, claim(t, n))
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	old := card(t, whole)
	whole = openTest(t, whole.opt)
	for n := 6; n < 10; n++ {
		record(t, whole, claim(t, n))
	}
	l = openTest(t, old)
	for _, n := range since {
		c := claim(t, n)
		c.ID = fmt.Sprintf("%032x", 1000+n)
		record(t, l, c)
	}
	return held(t, whole), l
}

// TestRestoredCardRemembersWhatItPaid: each payment of before, and each since, is paid
// here after it, and the numbers of neither are given again.
func TestRestoredCardRemembersWhatItPaid(t *testing.T) {
	central, l := putBack(t, 20, 21)
	if err := l.SetRefused(t.Context(), "C10"); err != nil {
		t.Fatal(err)
	}
	done, err := l.Restore(t.Context(), central)
	if err != nil || done != (Restored{Taken: 4, Carried: 2, Claims: 2}) {
		t.Fatalf("%+v %v", done, err)
	}
	for range 2 {
		if h := l.Head(); h.Epoch != 2 || h.Seq != 2 {
			t.Fatalf("head %+v", h)
		}
		for _, n := range []int{0, 5, 6, 9, 20, 21} {
			if r, err := l.Paid(t.Context(), claim(t, n).Ticket); err != nil || r == nil || r.Amount != 2000 {
				t.Errorf("ticket %d: %+v %v", n, r, err)
			}
			other := claim(t, n)
			other.ID = fmt.Sprintf("%032x", 5000+n)
			if _, err := l.Record(t.Context(), other); !errors.Is(err, ErrPaid) {
				t.Errorf("ticket %d is paid again: %v", n, err)
			}
		}
		if code, err := l.Refused(t.Context()); err != nil || code != "" {
			t.Errorf("still refused: %q %v", code, err)
		}
		check, err := l.Verify(t.Context())
		if err != nil || check.Claims != 12 || check.Money != 24000 {
			t.Errorf("%+v %v", check, err)
		}
		if err := l.Audit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openTest(t, l.opt)
	}
	// What was carried goes up to central, as the first entries of the new epoch.
	from, run, to, err := l.Pending(t.Context(), 100)
	if err != nil || from != 1 || len(run) != 2 || to.Epoch != 2 {
		t.Fatalf("%d %d %+v %v", from, len(run), to, err)
	}
	if u, err := l.Unsent(t.Context()); err != nil || u.Claims != 2 || u.Money != 4000 {
		t.Errorf("unsent: %+v %v", u, err)
	}
	e, err := ParseEntry([]byte(run[0]))
	if err != nil {
		t.Fatal(err)
	}
	if inner, err := e.Carried(); err != nil || inner.Epoch != 1 || inner.Seq != 7 {
		t.Errorf("%+v %v", inner, err)
	}
	record(t, l, claim(t, 30))
	if r, err := l.Receipt(t.Context(), validate.EntryNumber{Epoch: 1, Seq: 9}); err != nil || r.Print != validate.Unknown || r.Copies != 1 || r.Slip.Ticket != "008" {
		t.Errorf("paper of a payment that came back: %+v %v", r, err)
	}
}

// TestTicketPaidBeforeAndAfterTheRestoreIsKeptOnceAndToldTwice: the second payment was
// real, and central must hear of it.
func TestTicketPaidBeforeAndAfterTheRestoreIsKeptOnceAndToldTwice(t *testing.T) {
	central, l := putBack(t, 8)
	done, err := l.Restore(t.Context(), central)
	if err != nil || done != (Restored{Taken: 4, Carried: 1}) {
		t.Fatalf("%+v %v", done, err)
	}
	r, err := l.Paid(t.Context(), claim(t, 8).Ticket)
	if err != nil || r == nil || r.Number != (validate.EntryNumber{Epoch: 1, Seq: 9}) {
		t.Fatalf("%+v %v", r, err)
	}
	_, run, _, err := l.Pending(t.Context(), 10)
	if err != nil || len(run) != 1 {
		t.Fatal(err)
	}
	e, err := ParseEntry([]byte(run[0]))
	if err != nil || e.Kind != KindCarriedLine {
		t.Fatalf("%s %v", e.Kind, err)
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNewCardGetsAllOfTheJournalBack: an empty ledger becomes the one that was lost, and
// can be restored a second time with what it wrote since.
func TestNewCardGetsAllOfTheJournalBack(t *testing.T) {
	central, l := putBack(t, 20)
	if _, err := l.Restore(t.Context(), central); err != nil {
		t.Fatal(err)
	}
	record(t, l, claim(t, 21))
	fresh := openTest(t, options(t.TempDir()))
	second := held(t, l)
	done, err := fresh.Restore(t.Context(), second)
	if err != nil || done != (Restored{Taken: 12}) {
		t.Fatalf("%+v %v", done, err)
	}
	want, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := fresh.Verify(t.Context())
	if err != nil || got.Claims != want.Claims || got.Money != want.Money || got.Entries != want.Entries || got.Head.Epoch != 3 {
		t.Errorf("%+v, want %+v but for the head: %v", got, want, err)
	}
}

// TestEntriesThatCentralNeverGotAreCarried: central may hold less than the ledger, which was
// frozen because two devices had its name.
func TestEntriesThatCentralNeverGotAreCarried(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for n := range 3 {
		record(t, l, claim(t, n))
	}
	short := held(t, l)
	for n := 3; n < 5; n++ {
		record(t, l, claim(t, n))
	}
	done, err := l.Restore(t.Context(), short)
	if err != nil || done != (Restored{Carried: 2, Claims: 2}) {
		t.Fatalf("%+v %v", done, err)
	}
	if check, err := l.Verify(t.Context()); err != nil || check.Claims != 5 {
		t.Errorf("%+v %v", check, err)
	}
}

// TestRestoreTakesNothingButThisJournal: whatever is wrong with it, the ledger is as it was.
func TestRestoreTakesNothingButThisJournal(t *testing.T) {
	lines := func(r Restoring) (all [][]byte) {
		_ = r.Lines(func(line []byte) error { all = append(all, line); return nil })
		return all
	}
	for name, spoil := range map[string]func(r *Restoring){
		"a lower epoch": func(r *Restoring) { r.Epoch = 1 },
		"no note":       func(r *Restoring) { r.Acked.Note = "" },
		"another's":     func(r *Restoring) { r.Acked.Terminal = "T-2" },
		"the end is missing": func(r *Restoring) {
			all := lines(*r)
			r.Lines = func(use func([]byte) error) error { return errors.Join(use(all[6])) }
		},
		"a gap": func(r *Restoring) {
			all := lines(*r)
			r.Lines = func(use func([]byte) error) error { return errors.Join(use(all[6]), use(all[8])) }
		},
		"a changed line": func(r *Restoring) {
			all := lines(*r)
			all[7] = []byte(string(all[7][:len(all[7])-70]) + "f" + string(all[7][len(all[7])-69:]))
			r.Lines = func(use func([]byte) error) error {
				for _, line := range all {
					if err := use(line); err != nil {
						return err
					}
				}
				return nil
			}
		},
		"the network": func(r *Restoring) { r.Lines = func(func([]byte) error) error { return context.DeadlineExceeded } },
	} {
		central, l := putBack(t, 20)
		spoil(&central)
		if _, err := l.Restore(t.Context(), central); err == nil {
			t.Errorf("%s: taken", name)
		}
		if h := l.Head(); h.Epoch != 1 || h.Seq != 7 {
			t.Errorf("%s: head %+v", name, h)
		}
		if check, err := l.Verify(t.Context()); err != nil || check.Claims != 7 {
			t.Errorf("%s: %+v %v", name, check, err)
		}
		record(t, l, claim(t, 40))
	}
}
