package central

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// doubled is a world in which T-1 and T-2 have both paid a ticket of T-1's: T-2's entry 2
// is the conflict.
func doubled(t *testing.T, w *world) (first, second *desk) {
	t.Helper()
	first, second = newDesk(t, w, "T-1"), newDesk(t, w, "T-2")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	if _, err := first.record(t, won[0], 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := first.record(t, won[1], 0, 2); err != nil {
		t.Fatal(err)
	}
	first.sync(t)
	if _, err := first.record(t, won[2], 0, 4); err != nil { // a later head, which proves no more
		t.Fatal(err)
	}
	first.sync(t)
	if err := second.book.SetTraining(t.Context(), true, "luc"); err != nil { // an entry before it
		t.Fatal(err)
	}
	if err := second.book.SetTraining(t.Context(), false, "luc"); err != nil {
		t.Fatal(err)
	}
	if _, err := second.record(t, won[0], 0, 3); err != nil {
		t.Fatal(err)
	}
	if x := second.sync(t); len(x) != 1 || x[0].Kind != wire.DoubleClaim {
		t.Fatalf("%+v", x)
	}
	return first, second
}

func TestConflictIsSettledStepByStepAndEachStepIsKept(t *testing.T) {
	onEachStore(t, testConflictIsSettledStepByStepAndEachStepIsKept)
}

func testConflictIsSettledStepByStepAndEachStepIsKept(t *testing.T, w *world) {
	ctx := t.Context()
	_, d := doubled(t, w)
	n := validate.EntryNumber{Epoch: 1, Seq: 3}
	act := func(want error, act ConflictAct, liable, note, operator string) {
		t.Helper()
		_, err := w.ActOnConflict(ctx, "T-2", n, act, liable, note, operator)
		wantErr(t, err, want)
	}
	state := func(want ConflictState) {
		t.Helper()
		list, err := w.Conflicts(ctx, want, "T-2")
		if err != nil || len(list) != 1 || list[0].State != want || list[0].Number != "1-000003" || list[0].Kind != wire.DoubleClaim || *list[0].Minor == 0 {
			t.Fatalf("%+v %v", list, err)
		}
	}
	told := func(open int64, settled string) {
		t.Helper()
		d.sync(t)
		list, err := d.book.Exceptions(ctx, 10)
		count, err2 := d.book.OpenExceptions(ctx)
		if err != nil || err2 != nil || len(list) != 1 || list[0].Seq != 3 || list[0].Settled != settled || count != open {
			t.Fatalf("the terminal has %+v, %d open: %v %v", list, count, err, err2)
		}
	}
	state(ConflictOpen)
	told(1, "")
	act(ErrRefused, Reopen, "", "no", "anne")
	act(ErrRefused, Inquire, "", "", "anne")
	act(ErrRefused, Inquire, "", "who was it?", "")
	act(ErrRefused, Inquire, "shop", "who was it?", "anne")
	act(ErrRefused, SettleConflict, "", "known", "anne")
	act(ErrRefused, SettleConflict, "the player", "known", "anne")
	act(nil, Inquire, "", "slips asked for", "anne")
	act(ErrRefused, Inquire, "", "again", "anne")
	state(ConflictInquiry)
	w.clock.advance(time.Hour)
	act(nil, SettleConflict, "shop", "paid without a right", "paul")
	act(ErrRefused, SettleConflict, "lottery", "no, wait", "paul")
	act(ErrRefused, Inquire, "", "again", "anne")
	state(ConflictSettled)
	told(0, "shop")
	act(nil, Reopen, "", "the shop appeals", "anne")
	state(ConflictOpen)
	told(1, "")
	act(nil, SettleConflict, "lottery", "hold was late", "paul")
	told(0, "lottery")
	f, err := w.ConflictFile(ctx, "T-2", n)
	if err != nil || len(f.Steps) != 4 || f.State != ConflictSettled || f.Liable != "lottery" {
		t.Fatalf("%+v %v", f, err)
	}
	for i, want := range []ConflictStep{{1, ConflictInquiry, "", "slips asked for", "anne", noon}, {2, ConflictSettled, "shop", "paid without a right", "paul", noon.Add(time.Hour)},
		{3, ConflictOpen, "", "the shop appeals", "anne", noon.Add(time.Hour)}, {4, ConflictSettled, "lottery", "hold was late", "paul", noon.Add(time.Hour)}} {
		if got := f.Steps[i]; got != want {
			t.Errorf("step %d is %+v, want %+v", i+1, got, want)
		}
	}
	_, err = w.ActOnConflict(ctx, "T-1", validate.EntryNumber{Epoch: 1, Seq: 1}, Inquire, "", "x", "anne")
	wantErr(t, err, ErrNotFound)
	_, err = w.ConflictFile(ctx, "T-1", validate.EntryNumber{Epoch: 1, Seq: 1})
	wantErr(t, err, ErrNotFound)
}

// TestBothSidesOfAConflictAreProvenByWhatIsKept: with nothing of central's but its key.
func TestBothSidesOfAConflictAreProvenByWhatIsKept(t *testing.T) {
	onEachStore(t, testBothSidesOfAConflictAreProvenByWhatIsKept)
}

func testBothSidesOfAConflictAreProvenByWhatIsKept(t *testing.T, w *world) {
	doubled(t, w)
	f, err := w.ConflictFile(t.Context(), "T-2", validate.EntryNumber{Epoch: 1, Seq: 3})
	if err != nil || len(f.Evidence) != 2 || f.Evidence[0].Terminal != "T-2" || f.Evidence[0].Credited || f.Evidence[1].Terminal != "T-1" || !f.Evidence[1].Credited {
		t.Fatalf("%+v %v", f.Evidence, err)
	}
	central, err := note.NewVerifier(w.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Evidence {
		prev := ""
		for i, line := range e.Lines {
			entry, err := ledger.ParseEntry([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if c, err := entry.Claim(); err != nil || int64(c.Ticket) != *f.Ticket || c.Opening == "" {
					t.Errorf("%s: %+v %v", e.Terminal, c, err)
				}
			} else if entry.Prev != prev {
				t.Errorf("%s: line %d does not carry the hash of the one before", e.Terminal, i)
			}
			sum := sha256.Sum256([]byte(line))
			if prev = hex.EncodeToString(sum[:]); i == 0 && prev != e.Hash {
				t.Errorf("%s: its hash is %s", e.Terminal, e.Hash)
			}
		}
		spki, err := base64.StdEncoding.DecodeString(e.DeviceKey)
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.ParsePKIXPublicKey(spki)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := base64.StdEncoding.DecodeString(e.Signature)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(e.Head)); !ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], signature) || !strings.Contains(e.Head, "hash "+prev) || !strings.Contains(e.Head, "terminal "+e.Terminal) {
			t.Errorf("%s: the device's signature is not over the head that its lines lead to:\n%s", e.Terminal, e.Head)
		}
		n, err := note.Open([]byte(e.Ack), note.VerifierList(central))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := wire.ParseAck(n.Text); err != nil || a.Position.Hash != prev || a.Terminal != e.Terminal {
			t.Errorf("%s: the acknowledgement is %+v %v", e.Terminal, a, err)
		}
	}
	if len(f.Evidence[1].Lines) != 2 {
		t.Errorf("T-1 sent two entries at once, %d lines lead to the head", len(f.Evidence[1].Lines))
	}
}

func TestConflictsAreListedByStateAndTerminal(t *testing.T) {
	w := newWorld(t)
	doubled(t, w)
	d := w.enrolled(t, "T-3")
	d.record(t, "later-kind", map[string]int{"x": 1})
	d.send(t, 1, 1)
	for want, list := range map[int]func() ([]Conflict, error){
		2: func() ([]Conflict, error) { return w.Conflicts(t.Context(), "", "") }, 1: func() ([]Conflict, error) { return w.Conflicts(t.Context(), ConflictOpen, "T-3") },
		0: func() ([]Conflict, error) { return w.Conflicts(t.Context(), ConflictSettled, "") },
	} {
		if got, err := list(); err != nil || len(got) != want {
			t.Errorf("%d conflicts, want %d: %v", len(got), want, err)
		}
	}
	f, err := w.ConflictFile(t.Context(), "T-3", validate.EntryNumber{Epoch: 1, Seq: 1})
	if err != nil || f.Kind != wire.UnknownKind || f.Ticket != nil || len(f.Evidence) != 1 || !slices.Equal(f.Evidence[0].Lines, d.lines) {
		t.Errorf("%+v %v", f, err)
	}
}

// TestConflictNeverPassesAStepThatIsNotWrittenOut holds the table against the steps.
func TestConflictNeverPassesAStepThatIsNotWrittenOut(t *testing.T) {
	legal := map[string]ConflictState{"open inquire": ConflictInquiry, "open settle": ConflictSettled, "inquiry settle": ConflictSettled, "settled reopen": ConflictOpen}
	for _, state := range []ConflictState{ConflictOpen, ConflictInquiry, ConflictSettled} {
		for _, act := range []ConflictAct{Inquire, SettleConflict, Reopen} {
			got, err := Conflict{State: state}.next(act)
			if want, ok := legal[string(state)+" "+string(act)]; got != want || ok != (err == nil) {
				t.Errorf("%s %s: %s %v", state, act, got, err)
			}
		}
	}
}

// TestConflictsArePagedNewestFirst: every page goes on behind the one before, and together
// they are the list, of any state and terminal.
func TestConflictsArePagedNewestFirst(t *testing.T) { onEachStore(t, testConflictsArePagedNewestFirst) }

func testConflictsArePagedNewestFirst(t *testing.T, w *world) {
	for i := range 23 {
		terminal := fmt.Sprintf("T-%d", i%3)
		w.exec(t, "INSERT INTO conflicts(terminal, epoch, seq, kind, text, line, received) VALUES($1, 1, $2, 'double-claim', '', $3, $4)", terminal, i+1, []byte("{}"), wire.FormatTime(noon.Add(time.Duration(i/4)*time.Minute)))
		for n := range i % 4 {
			w.exec(t, "INSERT INTO conflict_acts(terminal, epoch, seq, number, state, liable, note, operator, at) VALUES($1, 1, $2, $3, $4, '', '', '', '')", terminal, i+1, n+1, []string{"inquiry", "settled", "open"}[n])
		}
	}
	for _, q := range []ConflictQuery{{}, {State: ConflictOpen}, {State: ConflictSettled}, {Terminal: "T-1"}, {State: ConflictInquiry, Terminal: "T-2"}} {
		want, err := w.Conflicts(t.Context(), q.State, q.Terminal)
		if err != nil || len(want) == 0 {
			t.Fatal(len(want), err)
		}
		slices.Reverse(want)
		var got []Conflict
		q.Limit = 4
		for range 10 {
			p, err := w.ConflictPage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.List...)
			if n := p.Counts[q.State]; q.State != "" && n != len(want) {
				t.Errorf("%+v: counted %d, listed %d", q, n, len(want))
			}
			if q.After = p.Next; p.Next == "" {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %d on pages, %d in the list, or in another order", q, len(got), len(want))
		}
	}
	_, err := w.ConflictPage(t.Context(), ConflictQuery{After: "x", Limit: 1})
	wantErr(t, err, ErrRefused)
}
