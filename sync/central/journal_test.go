package central

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

func TestUploadCreditsProvenClaimsAndCountersignsTheHead(t *testing.T) {
	onEachStore(t, testUploadCreditsProvenClaimsAndCountersignsTheHead)
}

func testUploadCreditsProvenClaimsAndCountersignsTheHead(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won...)
	n := int64(len(won))
	ack, a := d.send(t, 1, n)
	if ack.Terminal != "T-1" || ack.Position != d.head(n) || ack.AllowanceClaims != 50 || ack.AllowanceMinor != 100000 || !ack.Time.Equal(noon) || len(a.Exceptions) != 0 {
		t.Fatalf("acknowledged %+v, exceptions %+v", ack, a.Exceptions)
	}
	if got := w.count(t, "SELECT sum(amount_minor) FROM claims WHERE terminal = 'T-1'"); got != 2*20000+20*2000 {
		t.Fatalf("%d minor units credited", got)
	}
	var line []byte
	if err := w.Reader().QueryRowContext(t.Context(), "SELECT line FROM entries WHERE seq = 3").Scan(&line); err != nil || string(line) != d.lines[2] {
		t.Fatalf("stored %q, sent %q: %v", line, d.lines[2], err)
	}
}

// TestUploadTakesTheTerminalsOwnLedger: what sync/ledger writes is what central proves,
// and it knows every kind.
func TestUploadTakesTheTerminalsOwnLedger(t *testing.T) {
	onEachStore(t, testUploadTakesTheTerminalsOwnLedger)
}

func testUploadTakesTheTerminalsOwnLedger(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	l, err := ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(t.TempDir(), "l.db"), Terminal: "T-1", ClaimKey: d.claimKey,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: noon} }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.OpenShift(t.Context(), "marie", 10_000, "EUR"); err != nil {
		t.Fatal(err)
	}
	for i, x := range w.winners(10, 19) {
		_, err := l.Record(t.Context(), validate.Claim{ID: fmt.Sprintf("%032x", i+1), Ticket: validate.TicketKey{Block: w.block.ID, Pack: x.code.Pack, Number: x.code.Number},
			Secret: x.code, Tier: x.tier, Amount: tiers[x.tier-1].Amount, Currency: "EUR", OwnerEpoch: 1, Entered: validate.Scanned, FirstCheck: noon})
		if err != nil {
			t.Fatal(err)
		}
	}
	first := validate.EntryNumber{Epoch: 1, Seq: 2}
	_, err1 := l.AppendReprint(t.Context(), first, "marie", "lost")
	_, err2 := l.RequestReversal(t.Context(), validate.Reversal{ID: fmt.Sprintf("%032x", 77), Number: first, Reason: validate.WrongTicket, Operator: "marie", Manager: "paul"})
	err3 := l.ReversalAnswer(t.Context(), fmt.Sprintf("%032x", 77), false, "the slip is signed")
	_, err4 := l.CloseShift(t.Context(), ledger.Ending{Operator: "marie"})
	_, err5 := l.Z(t.Context(), validate.DayClosing, ledger.Ending{Operator: "marie"})
	if err := errors.Join(err1, err2, err3, err4, err5, l.SetTraining(t.Context(), true, "marie")); err != nil {
		t.Fatal(err)
	}
	if err := l.Lines(t.Context(), 1, 0, func(_ int64, line []byte) error { d.lines = append(d.lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	ack, a := d.send(t, 1, int64(len(d.lines)))
	if head := l.Head(); len(a.Exceptions) != 0 || ack.Position.Hash != head.Hash.String() || ack.Position.Seq != head.Seq {
		t.Fatalf("acknowledged %+v, exceptions %+v, the ledger ends at %+v", ack, a.Exceptions, head)
	}
}

func TestUploadRepeatedGetsTheSameAnswer(t *testing.T) {
	onEachStore(t, testUploadRepeatedGetsTheSameAnswer)
}

func testUploadRepeatedGetsTheSameAnswer(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[0], won[0], won[1], won[2]) // the second is a double claim
	_, first := d.send(t, 1, 3)
	wantException(t, first, 2, wire.DoubleClaim)
	w.clock.advance(time.Hour)
	d.send(t, 4, 4)
	if _, again := d.send(t, 1, 3); !reflect.DeepEqual(first, again) {
		t.Fatalf("first %+v\nagain %+v", first, again)
	}
	ack, a := d.send(t, 2, 4) // overlaps
	if ack.Position != d.head(4) {
		t.Fatalf("acknowledged %+v", ack.Position)
	}
	wantException(t, a, 2, wire.DoubleClaim)
	if n := w.count(t, "SELECT count(*) FROM entries"); n != 4 {
		t.Fatalf("%d entries stored, want 4", n)
	}
	var h wire.HelloAnswer
	if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h); e != nil || h.Acked != d.head(4) {
		t.Fatalf("hello says %+v, %v", h, e)
	}
}

// TestUploadRacingItselfIsStoredOnce: answers were lost and the terminal asks again while
// the first requests are still under way.
func TestUploadRacingItselfIsStoredOnce(t *testing.T) {
	onEachStore(t, testUploadRacingItselfIsStoredOnce)
}

func testUploadRacingItselfIsStoredOnce(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[0], won[0], won[1], won[2], won[3])
	uploads := []wire.Upload{d.upload(t, 1, 3), d.upload(t, 1, 5), d.upload(t, 1, 5), d.upload(t, 1, 3), d.upload(t, 1, 5)}
	answers := make([]wire.UploadAnswer, len(uploads))
	var group sync.WaitGroup
	for i, u := range uploads {
		group.Go(func() {
			if e := post(t, d.client, wire.PathJournal, u, &answers[i]); e != nil {
				t.Error(e)
			}
		})
	}
	group.Wait()
	if !reflect.DeepEqual(answers[0], answers[3]) || !reflect.DeepEqual(answers[1], answers[2]) || !reflect.DeepEqual(answers[1], answers[4]) {
		t.Fatalf("the same upload, different answers: %+v", answers)
	}
	if w.count(t, "SELECT count(*) FROM entries") != 5 || w.count(t, "SELECT count(*) FROM claims") != 4 || w.count(t, "SELECT count(*) FROM conflicts") != 1 {
		t.Fatal("not stored once")
	}
}

// TestPaymentElsewhereWakesTheOwner while its long poll waits.
func TestPaymentElsewhereWakesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enrolled(t, "T-1")
		two := w.enrolled(t, "T-2")
		w.give(t, "T-1", 10, 19)
		two.pay(t, w.winners(10, 19)[0])
		got := make(chan wire.Feed, 1)
		go func() {
			f, err := w.Feed(t.Context(), "T-1", 2, 50*time.Second)
			if err != nil {
				t.Error(err)
			}
			got <- f
		}()
		synctest.Wait()
		begin := time.Now()
		two.send(t, 1, 1)
		if f := <-got; len(f.Items) != 1 || f.Items[0].Paid == nil || time.Since(begin) > gatherFor {
			t.Fatalf("%+v after %v", f, time.Since(begin))
		}
		two.client.CloseIdleConnections()
	})
}

func TestUploadWithAGapSaysWhereTheJournalGoesOn(t *testing.T) {
	onEachStore(t, testUploadWithAGapSaysWhereTheJournalGoesOn)
}

func testUploadWithAGapSaysWhereTheJournalGoesOn(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:4]...)
	d.send(t, 1, 2)
	e := d.refused(t, d.upload(t, 4, 4))
	wantKind(t, e, wire.KindBehind)
	if e.Acked == nil || *e.Acked != d.head(2) {
		t.Fatalf("acked %+v, want %+v", e.Acked, d.head(2))
	}
	d.send(t, 3, 4)
}

func TestForkFreezesTheTerminal(t *testing.T) {
	for _, from := range []int64{1, 2, 3} { // other bytes where some are held, and after them
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			if from != 2 {
				testForkFreezesTheTerminal(t, newWorld(t), from)
				return
			}
			onEachStore(t, func(t *testing.T, w *world) { testForkFreezesTheTerminal(t, w, from) })
		})
	}
}

func testForkFreezesTheTerminal(t *testing.T, w *world, from int64) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[:2]...)
	head := d.head(2)
	d.send(t, 1, 2)
	clone := *d
	clone.lines = nil
	clone.pay(t, won[5], won[6], won[7])
	e := clone.refused(t, clone.upload(t, from, 3))
	wantKind(t, e, wire.KindFork)
	if e.Acked == nil || *e.Acked != head {
		t.Fatalf("acked %+v, want %+v", e.Acked, head)
	}
	wantKind(t, d.refused(t, d.upload(t, 1, 2)), wire.KindForbidden)
	term, err := w.Terminal(t.Context(), "T-1")
	if err != nil || term.State != Suspended || !strings.Contains(term.Reason, "fork") || w.count(t, "SELECT count(*) FROM entries") != 2 {
		t.Fatalf("%+v: %v", term, err)
	}
}

func TestUploadThatIsNotSignedOrNotAChainStoresNothing(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:3]...)
	other := *d
	other.key = newKey(t)
	for name, u := range map[string]wire.Upload{
		"another key's signature": other.upload(t, 1, 3),
		"a head of other entries": func() wire.Upload { u := d.upload(t, 1, 3); u.Lines = u.Lines[:2]; return u }(),
		"lines out of order": func() wire.Upload {
			u := d.upload(t, 1, 3)
			u.Lines = []string{d.lines[1], d.lines[0], d.lines[2]}
			return u
		}(),
		"a changed line": func() wire.Upload {
			u := d.upload(t, 1, 3)
			u.Lines = []string{d.lines[0], strings.Replace(d.lines[1], "marie", "mario", 1), d.lines[2]}
			return u
		}(),
		"no lines":     {Protocol: 1, Epoch: 1, From: 1, To: d.head(0)},
		"line 0":       func() wire.Upload { u := d.upload(t, 1, 3); u.From = 0; return u }(),
		"no signature": func() wire.Upload { u := d.upload(t, 1, 3); u.Signature = ""; return u }(),
		"blanks in an entry": func() wire.Upload {
			spaced := *d
			spaced.lines = []string{strings.Replace(d.lines[0], `"seq":`, `"seq": `, 1)}
			return spaced.upload(t, 1, 1)
		}(),
		"too many lines": func() wire.Upload { u := d.upload(t, 1, 3); u.Lines = make([]string, wire.MaxEntries+1); return u }(),
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, d.refused(t, u), wire.KindBadRequest) })
	}
	stranger := w.enrolled(t, "T-2")
	u := d.upload(t, 1, 3)
	sum := sha256.Sum256([]byte(wire.HeadText("T-2", u.To)))
	signature, err := ecdsa.SignASN1(rand.Reader, stranger.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	u.Signature = base64.StdEncoding.EncodeToString(signature)
	wantKind(t, stranger.refused(t, u), wire.KindBadRequest)
	if n := w.count(t, "SELECT count(*) FROM entries"); n != 0 {
		t.Fatalf("%d entries stored", n)
	}
	d.send(t, 1, 3)
}

// TestClaimsThatProveNothingAreKeptAndNotCredited: each as its kind, with its bytes, and
// the queue goes on.
func TestClaimsThatProveNothingAreKeptAndNotCredited(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won, loser := w.winners(10, 19), w.loser()
	honest := func() ledger.ClaimBody { return d.claim(t, won[0]) }
	for _, c := range []struct {
		name string
		body any
		kind wire.ExceptionKind
	}{
		{"another ticket's secret", d.sealed(t, honest(), won[1].code.Secret()), wire.ClaimUnproven},
		{"an opening of another claim", func() any { c := honest(); c.Opening = d.claim(t, won[1]).Opening; return c }(), wire.ClaimUnproven},
		{"no opening", func() any { c := honest(); c.Opening = ""; return c }(), wire.ClaimUnproven},
		{"an opening that is no base64", func() any { c := honest(); c.Opening = "?"; return c }(), wire.ClaimUnproven},
		{"a secret of another width", d.sealed(t, honest(), "12"), wire.ClaimUnproven},
		{"an unknown block", func() any { c := honest(); c.Block[0]++; return d.sealed(t, c, won[0].code.Secret()) }(), wire.ClaimUnproven},
		{"a ticket beyond the block", func() any { c := honest(); c.Pack = 500; return d.sealed(t, c, won[0].code.Secret()) }(), wire.ClaimUnproven},
		{"a loser", func() any { c := d.claim(t, loser); c.Tier, c.AmountMinor = 2, 2000; return c }(), wire.WrongPrize},
		{"a larger amount", func() any { c := honest(); c.AmountMinor++; return c }(), wire.WrongPrize},
		{"another tier", func() any { c := honest(); c.Tier = 3 - c.Tier; return c }(), wire.WrongPrize},
		{"another currency", func() any { c := honest(); c.Currency = "USD"; return c }(), wire.WrongPrize},
		{"another owner epoch", func() any { c := honest(); c.OwnerEpoch = 2; return c }(), wire.NoRight},
		{"a round that no reversal opened", func() any { c := honest(); c.Round = 1; return d.sealed(t, c, won[0].code.Secret()) }(), wire.NoRight},
		{"a body of another shape", map[string]any{"claim": 1}, wire.UnknownKind},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.record(t, ledger.KindClaim, c.body)
			seq := int64(len(d.lines))
			ack, a := d.send(t, seq, seq)
			wantException(t, a, seq, c.kind)
			if ack.Position != d.head(seq) {
				t.Fatalf("acknowledged %+v", ack.Position)
			}
			if strings.Contains(a.Exceptions[0].Text, won[0].code.Secret()) || strings.Contains(a.Exceptions[0].Text, loser.code.Secret()) {
				t.Fatalf("the exception shows a secret: %s", a.Exceptions[0].Text)
			}
			if w.count(t, "SELECT count(*) FROM conflicts WHERE seq = $1 AND kind = $2 AND line = $3", seq, c.kind, []byte(d.lines[seq-1])) != 1 {
				t.Fatal("the conflict's bytes are not kept")
			}
		})
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 0 {
		t.Fatalf("%d claims credited", n)
	}
	d.pay(t, won[0])
	if _, a := d.send(t, int64(len(d.lines)), int64(len(d.lines))); len(a.Exceptions) != 0 {
		t.Fatalf("the honest claim after them: %+v", a.Exceptions)
	}
}

func TestEntriesOfNewerProgramsAreStored(t *testing.T) {
	onEachStore(t, testEntriesOfNewerProgramsAreStored)
}

func testEntriesOfNewerProgramsAreStored(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.record(t, "closing", map[string]int{"claims": 3})
	d.record(t, "closing", map[string]int{"claims": 4})
	d.lines[1] = strings.Replace(d.lines[1], `"v":1`, `"v":2,"extra":true`, 1)
	d.pay(t, w.winners(10, 19)[0])
	_, a := d.send(t, 1, 3)
	if len(a.Exceptions) != 2 || a.Exceptions[0].Kind != wire.UnknownKind || a.Exceptions[1].Kind != wire.UnknownKind {
		t.Fatalf("exceptions %+v", a.Exceptions)
	}
	if w.count(t, "SELECT count(*) FROM entries WHERE kind = 'closing'") != 2 || w.count(t, "SELECT count(*) FROM claims") != 1 {
		t.Fatal("not all was stored")
	}
}

// TestNotesOfAuditsAreReadHere: what the journal notes of the audits beside it is no
// exception, and one that makes no sense is.
func TestNotesOfAuditsAreReadHere(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	head := ledger.AuditHead{Audit: "operators", Seq: 7, Hash: strings.Repeat("ab", 32)}
	d.record(t, ledger.KindAuditHeads, ledger.AuditHeadsBody{Heads: []ledger.AuditHead{head}})
	head.Hash = "ab"
	d.record(t, ledger.KindAuditHeads, ledger.AuditHeadsBody{Heads: []ledger.AuditHead{head}})
	if _, a := d.send(t, 1, 2); len(a.Exceptions) != 1 || a.Exceptions[0].Seq != 2 || a.Exceptions[0].Kind != wire.UnknownKind {
		t.Fatalf("%+v", a.Exceptions)
	}
}

// TestFirstAcceptedClaimWins: two terminals paid one ticket. The owner's claim is
// accepted; the other is kept whole, and the owner hears of it.
func TestFirstAcceptedClaimWins(t *testing.T) { onEachStore(t, testFirstAcceptedClaimWins) }

func testFirstAcceptedClaimWins(t *testing.T, w *world) {
	one, two := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	w.give(t, "T-1", 10, 14)
	w.give(t, "T-2", 15, 19)
	ours := w.winners(10, 14)
	one.pay(t, ours[0])
	one.send(t, 1, 1)
	two.pay(t, ours[0], ours[1]) // paid already; not paid yet, and not theirs
	cursor := one.feed(t, 0)[len(one.feed(t, 0))-1].Seq
	_, a := two.send(t, 1, 2)
	if len(a.Exceptions) != 2 || a.Exceptions[0].Kind != wire.DoubleClaim || a.Exceptions[1].Kind != wire.NoRight {
		t.Fatalf("exceptions %+v", a.Exceptions)
	}
	if !strings.Contains(a.Exceptions[0].Text, "T-1") || w.count(t, "SELECT count(*) FROM conflicts WHERE line = $1", []byte(two.lines[0])) != 1 {
		t.Fatalf("conflict not kept: %+v", a.Exceptions[0])
	}
	heard := one.feed(t, cursor)
	if len(heard) != 2 || heard[1].Paid == nil || heard[1].Paid.Ticket != ours[1].code.Number || heard[1].Paid.Terminal != "T-2" || heard[1].Paid.Number != "1-000002" {
		t.Fatalf("the owner heard %+v", heard)
	}
	theirs := two.feed(t, cursor)
	for i, x := range a.Exceptions { // an answer can be lost
		if len(theirs) != 2 || theirs[i].Kind != wire.FeedException || theirs[i].Exception.Seq != x.Seq || theirs[i].Exception.Kind != x.Kind {
			t.Fatalf("the other heard %+v", theirs)
		}
	}
	one.pay(t, ours[1]) // the owner had the right all along
	if _, a := one.send(t, 2, 2); len(a.Exceptions) != 0 {
		t.Fatalf("exceptions %+v", a.Exceptions)
	}
}

// TestForgedForeignClaimDoesNotLockTheOwner: a claim that proves nothing is not told to
// the pack's owner, who may still pay the ticket.
func TestForgedForeignClaimDoesNotLockTheOwner(t *testing.T) {
	w := newWorld(t)
	one, two := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	two.record(t, ledger.KindClaim, two.sealed(t, two.claim(t, won[0]), won[1].code.Secret()))
	_, a := two.send(t, 1, 1)
	wantException(t, a, 1, wire.ClaimUnproven)
	for _, item := range one.feed(t, 0) {
		if item.Paid != nil {
			t.Fatalf("the owner heard %+v", item.Paid)
		}
	}
}

func TestClaimOfAPackNeverActivatedHasNoRight(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	won := w.winners(10, 19)
	d.pay(t, won[0])
	_, a := d.send(t, 1, 1)
	wantException(t, a, 1, wire.NoRight) // printed
	if _, err := w.Deliver(t.Context(), "399", 10, 19, "T-1"); err != nil {
		t.Fatal(err)
	}
	d.pay(t, won[0])
	_, a = d.send(t, 2, 2)
	wantException(t, a, 2, wire.NoRight) // delivered
}

// TestHigherEpochNeedsAPerson: a ledger that was reset begins a higher epoch, which
// central takes only after the terminal was enrolled again.
func TestHigherEpochNeedsAPerson(t *testing.T) { onEachStore(t, testHigherEpochNeedsAPerson) }

func testHigherEpochNeedsAPerson(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[0])
	d.send(t, 1, 1)
	d.epoch, d.lines = 2, nil
	d.pay(t, won[1])
	wantKind(t, d.refused(t, d.upload(t, 1, 1)), wire.KindFork)
	if err := w.Suspend(t.Context(), "T-1", "card lost"); err != nil {
		t.Fatal(err)
	}
	again := w.enrolled(t, "T-1")
	again.epoch = 2
	again.pay(t, won[1], won[0])
	ack, a := again.send(t, 1, 2)
	if ack.Position != again.head(2) {
		t.Fatalf("acknowledged %+v", ack.Position)
	}
	wantException(t, a, 2, wire.DoubleClaim)
	again.epoch, again.lines = 3, nil
	again.pay(t, won[2])
	wantKind(t, again.refused(t, again.upload(t, 1, 1)), wire.KindFork)
}

// TestKilledBetweenCommitAndAnswer: the process dies with an upload committed and not
// answered. The upload repeated is acknowledged, and everything is stored once.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	if dir := os.Getenv("GRATTOIR_CENTRAL_CHILD"); dir != "" {
		childUploads(t, Options{Dir: dir, Database: os.Getenv("GRATTOIR_CENTRAL_DATABASE"), Now: func() time.Time { return noon }})
		return
	}
	onEachStore(t, testKilledBetweenCommitAndAnswer)
}

func testKilledBetweenCommitAndAnswer(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[0], won[0], won[1])
	u := d.upload(t, 1, 3)
	body, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.opt.Dir, "upload.json"), body, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenCommitAndAnswer$")
	child.Env = append(os.Environ(), "GRATTOIR_CENTRAL_CHILD="+w.opt.Dir, "GRATTOIR_CENTRAL_DATABASE="+w.opt.Database)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	committed := false
	for scan := bufio.NewScanner(out); !committed && scan.Scan(); {
		committed = scan.Text() == "committed"
	}
	if err := child.Process.Kill(); err != nil || !committed {
		t.Fatalf("committed: %v, %v", committed, err)
	}
	_ = child.Wait()
	w.Central = openCentral(t, w.opt)
	w.dial = servePipes(t, w.Central)
	d.connect(t)
	before := w.count(t, "SELECT count(*) FROM entries")
	ack, a := d.send(t, 1, 3)
	wantException(t, a, 2, wire.DoubleClaim)
	if before != 3 || ack.Position != d.head(3) || w.count(t, "SELECT count(*) FROM entries") != 3 || w.count(t, "SELECT count(*) FROM claims") != 2 {
		t.Fatalf("%d entries after the kill, acknowledged %+v", before, ack.Position)
	}
}

// childUploads commits the upload and never answers.
func childUploads(t *testing.T, opt Options) {
	c := openCentral(t, opt)
	body, err := os.ReadFile(filepath.Join(opt.Dir, "upload.json"))
	if err != nil {
		t.Fatal(err)
	}
	var u wire.Upload
	if err := json.Unmarshal(body, &u); err != nil {
		t.Fatal(err)
	}
	c.committed = func() { fmt.Println("committed"); select {} }
	var spki []byte
	if err := c.Reader().QueryRow("SELECT public_key FROM terminals WHERE name = 'T-1'").Scan(&spki); err != nil {
		t.Fatal(err)
	}
	key, err := parseKey(spki)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.upload(context.Background(), caller{"T-1", key}, u)
	t.Fatalf("the upload was answered: %v", err)
}

// BenchmarkUpload is one upload of 50 claims with everything proven: signature, chain,
// openings, tags, and one durable commit.
func BenchmarkUpload(b *testing.B) {
	w := newWorld(b)
	d := w.enrolled(b, "T-1")
	w.give(b, "T-1", 10, 19)
	won := w.winners(10, 19)
	const batch = 50
	var uploads []wire.Upload
	for range 200 {
		for i := range batch {
			d.pay(b, won[i%len(won)])
		}
		n := int64(len(d.lines))
		uploads = append(uploads, d.upload(b, n-batch+1, n))
	}
	who := caller{"T-1", &d.key.PublicKey}
	i := 0
	for b.Loop() {
		if i == len(uploads) {
			break
		}
		if _, err := w.upload(b.Context(), who, uploads[i]); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(i*batch)/b.Elapsed().Seconds(), "claims/s")
}
