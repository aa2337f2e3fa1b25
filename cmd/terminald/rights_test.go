package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// TestKillsWhileCentralIsAskedPayEachTicketOnce kills the real program at each step of a
// claim that central must allow, every ticket of a shop whose packs are released. The
// same id is found again and gets the same answer; at the end both sides hold the same
// payments, and no ticket is kept from anybody by a claim that nobody knows of.
func TestKillsWhileCentralIsAskedPayEachTicketOnce(t *testing.T) {
	l := openLinked(t)
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	if _, err := l.Client.ReleasePacks(deadline(t), "", ""); err != nil {
		t.Fatal(err)
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 })
	l.stop(t)
	steps, killed := []string{"intended", "answer", "answered", "answer-shown", "recorded", "paid-shown"}, 0
	for round := range 2 * len(steps) {
		code := l.codes["2000"][round/2]
		if err := l.Start(deadline(t), "GRATTOIR_CRASH="+steps[round%len(steps)]); err != nil {
			killed++ // what waits from the round before was met while it started
		} else if !l.allowed(t, code) {
			killed++
		}
		l.Crash()
	}
	if killed < len(steps) {
		t.Errorf("%d of %d rounds ended by a kill: it proves little", killed, 2*len(steps))
	}
	l.start(t)
	for round := range len(steps) {
		l.allowed(t, l.codes["2000"][round]) // whatever was left of them
		if a := l.again(t, l.codes["2000"][round]); a.Verdict.Reason != validate.AlreadyPaidHere {
			t.Errorf("ticket %d: %s, %s", round, a.Verdict.Reason, a.Detail)
		}
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 && st.Unsent.Claims == 0 })
	l.stop(t)
	if err := l.central.Stop(); err != nil {
		t.Fatal(err)
	}
	l.compare(t)
}

// allowed asks for a ticket and pays it; false when the program was killed meanwhile.
func (l *linked) allowed(t *testing.T, code ticket.Code) bool {
	t.Helper()
	ctx := deadline(t)
	a, err := l.Client.Check(ctx, code.Digits(), false)
	for err == nil {
		switch {
		case a.Verdict.Reason == validate.AlreadyPaidHere:
			return true
		case a.Verdict.Reason == validate.Winner:
			a, err = l.Client.Pay(ctx, a.ID, false)
			return err == nil && a.Receipt != nil
		case a.CanAsk:
			a, err = l.Client.Ask(ctx, a.ID)
		case a.Verdict.Reason == validate.WaitingForCentral:
			a, err = l.Client.Answered(ctx, a)
		default:
			t.Errorf("%v: %s, %s", code, a.Verdict.Reason, a.Detail)
			return true
		}
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	return false
}

// TestOwnerKilledAtAHoldKeepsIt: another terminal asks about its tickets while it dies at
// each step of a hold. Nobody is allowed before the hold is durable, everybody in the end,
// and the owner pays none of these tickets by itself.
func TestOwnerKilledAtAHoldKeepsIt(t *testing.T) {
	l := openLinked(t)
	other := l.asker(t)
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	st, err := l.Client.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	block := st.Blocks[0].ID
	l.stop(t)
	for n, step := range []string{"held", "hold-told", "held", "hold-told"} {
		code := l.codes["2000"][n]
		if err := l.Start(deadline(t), "GRATTOIR_CRASH="+step); err != nil {
			t.Fatal(err)
		}
		c := other.claim(t, block, code, n)
		if _, err := other.book.Intend(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(deadline(t)); err != nil {
			t.Fatalf("%s: it was not killed: %v", step, err)
		}
		l.start(t)
		other.allowed(t, c)
		if a := l.again(t, code); a.Verdict.Reason != validate.NeedsCentral && a.Verdict.Reason != validate.AlreadyPaidElsewhere {
			t.Errorf("%s: the owner says %s", step, a.Verdict.Reason)
		}
		c.Right = validate.RightGrant
		if _, err := other.book.Record(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		l.stop(t)
	}
}

// asking is another terminal, as a ledger and a link in this process.
type asking struct{ book *ledger.Ledger }

func (l *linked) asker(t *testing.T) *asking {
	t.Helper()
	dir := t.TempDir()
	var added struct{ Code string }
	l.run(t, &added, "terminal", "add", "T-2")
	id, err := uplink.Enrol(deadline(t), uplink.EnrolOptions{URL: l.central.URL(), Code: added.Code, Dir: filepath.Join(dir, "identity")})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ledger.ParseClaimKey(id.ClaimKey)
	if err != nil {
		t.Fatal(err)
	}
	book, err := ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(dir, "ledger.db"), Terminal: "T-2", ClaimKey: key,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }})
	if err != nil {
		t.Fatal(err)
	}
	up, err := uplink.New(uplink.Options{Identity: id, Ledger: book, Blocks: uplink.BlockStore{Dir: filepath.Join(dir, "manifests"), Quota: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- up.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = book.Close()
	})
	return &asking{book}
}

func (a *asking) claim(t *testing.T, block string, code ticket.Code, n int) validate.Claim {
	t.Helper()
	var id validate.BlockID
	if err := id.UnmarshalText([]byte(block)); err != nil {
		t.Fatal(err)
	}
	tier := 0
	for i, x := range tiers {
		if x.Amount == 2000 {
			tier = i + 1
		}
	}
	return validate.Claim{ID: fmt.Sprintf("%032x", 0xb00+n), Secret: code, Tier: tier, Amount: 2000, Currency: "EUR", Entered: validate.Scanned,
		Ticket: validate.TicketKey{Block: id, Pack: code.Pack, Number: code.Number}}
}

// allowed waits until central allows a claim, asking again while its owner is silent.
func (a *asking) allowed(t *testing.T, c validate.Claim) {
	t.Helper()
	ctx := deadline(t)
	for {
		changed := a.book.IntentsChanged()
		i, err := a.book.Intent(ctx, c.Ticket)
		if err != nil || i == nil || i.State == validate.IntentDenied {
			t.Fatalf("%+v %v", i, err)
		}
		if i.State == validate.IntentApproved {
			return
		}
		if i.Silent {
			if _, err := a.book.Intend(ctx, c); err != nil {
				t.Fatal(err)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("no answer")
		}
	}
}
