package main

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/device/sim"
	"grattoir/sync/ledger"
	"grattoir/validate"
)

// TestHundredKillsLeaveLedgerPaperAndCentralAgreeing kills the real program after every
// step of a claim, again and again on the same terminals, with random tickets and a
// printer that fails in its own ways meanwhile. At the end what the ledger holds, what
// lies on the counter and what central was told are the same.
func TestHundredKillsLeaveLedgerPaperAndCentralAgreeing(t *testing.T) {
	rounds := 50 // in each of two shops
	if os.Getenv("GRATTOIR_SOAK") != "" {
		rounds = 500
	}
	for n := range 2 {
		t.Run(fmt.Sprintf("shop=%d", n+1), func(t *testing.T) {
			t.Parallel()
			killRounds(t, uint64(n), rounds)
		})
	}
}

// killed is one shop over its rounds.
type killed struct {
	*linked
	rng     *mathrand.Rand
	said    map[string]bool // codes that the counter said are paid, before it was killed
	refused int             // tickets shown again that were paid
	ended   int             // rounds that the program did not survive
}

func killRounds(t *testing.T, seed uint64, rounds int) {
	k := &killed{linked: openLinked(t), rng: mathrand.New(mathrand.NewPCG(seed, 9)), said: map[string]bool{}}
	k.start(t)
	k.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 }) // block and packs arrive in peace
	k.stop(t)
	steps := []string{"opened", "shown", "recorded", "paid-shown", "sending", "sent", "marked"}
	for round := range rounds {
		k.round(t, steps[(round+int(seed)*rounds)%len(steps)])
	}
	k.start(t)
	k.await(t, func(st control.Status) bool { return st.Link.Entries == 0 && st.Unsent.Claims == 0 })
	k.settled(t)
	for _, code := range k.codes["2000"] {
		if a := k.again(t, code); k.said[code.Digits()] && a.Verdict.Reason != validate.AlreadyPaidHere {
			t.Errorf("%v was paid before the kill, now %s", code, a.Verdict.Reason)
		}
	}
	k.stop(t)
	if err := k.central.Stop(); err != nil {
		t.Fatal(err)
	}
	k.compare(t)
	k.paper(t)
	if k.ended < rounds*3/4 || k.refused == 0 || len(k.said) == 0 {
		t.Errorf("%d of %d rounds ended by a kill, %d paid tickets shown again, %d payments seen: it proves little", k.ended, rounds, k.refused, len(k.said))
	}
}

// round starts the program, which is to be killed at a step, pays a ticket, and lets the
// printer do what printers do.
func (k *killed) round(t *testing.T, step string) {
	t.Helper()
	ctx := deadline(t)
	code := k.codes["2000"][k.rng.IntN(len(k.codes["2000"]))]
	// What waits from the round before may meet the step while the program starts.
	err := k.Start(ctx, "GRATTOIR_CRASH="+step)
	if err == nil {
		k.trouble()
		var a control.Answer
		if a, err = k.Client.Check(ctx, code.Digits(), false); err == nil {
			switch {
			case a.Verdict.Reason == validate.AlreadyPaidHere:
				k.refused++
			case a.Verdict.Reason != validate.Winner:
				t.Fatalf("%v: %s, %s", code, a.Verdict.Reason, a.Detail)
			case k.said[code.Digits()]:
				t.Fatalf("%v was paid before and wins again", code)
			}
			a, err = k.Client.Pay(ctx, a.ID, false)
			if err == nil && a.Receipt != nil {
				k.said[code.Digits()] = true
			}
		}
	}
	if err != nil {
		k.ended++
	} else if k.step(ctx, step) {
		k.ended++
	}
	k.Crash()
	k.mend(t)
}

// step waits for a kill that comes after the answer: while the slip is printed. A slip
// that a fault holds never comes so far; then the kill comes where it is.
func (k *killed) step(ctx context.Context, step string) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		list, err := k.Client.Last(ctx)
		if err != nil {
			return true // it is gone
		}
		st, err := k.Client.Status(ctx)
		if err != nil {
			return true
		}
		waits := len(list) > 0 && (list[0].Print == validate.Sending || list[0].Print == validate.Held)
		if !waits || st.Printer != nil {
			return false
		}
	}
	return false
}

// trouble is one of the printer's ways to fail, or none.
func (k *killed) trouble() {
	switch k.rng.IntN(7) {
	case 0:
		k.Paper.LoadPaper(1 + k.rng.IntN(40)) // ends in the slip
	case 1:
		k.Paper.HangUpAfter(k.rng.IntN(3000)) // the cable is pulled in the slip
	case 2:
		k.Paper.Set(func(s *sim.State) { s.CoverOpen = true })
	case 3:
		k.Paper.PowerCycle()
	}
}

// mend gives the printer what it lacks, and now and then takes its memory.
func (k *killed) mend(t *testing.T) {
	t.Helper()
	k.Paper.HangUpAfter(0)
	if err := k.Paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	if k.rng.IntN(3) == 0 {
		k.Paper.PowerCycle()
	}
	k.Paper.LoadPaper(0)
	k.Paper.Set(func(s *sim.State) { s.CoverOpen, s.PaperEnd = false, false })
	if err := k.Paper.Replug(); err != nil {
		t.Fatal(err)
	}
}

// paper holds the slips against the ledger: at most one slip of a claim is no DUPLICATA,
// none is of no claim, and a claim without any is one whose slip is not known to be out.
func (k *killed) paper(t *testing.T) {
	t.Helper()
	book, err := ledger.Open(context.Background(), ledger.Options{Path: filepath.Join(k.Dir, "data", "ledger.db"), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	receipts, err := book.Last(context.Background(), 10000)
	if err != nil {
		t.Fatal(err)
	}
	originals, copies := map[string]int{}, map[string]int{}
	for _, slip := range k.Paper.Slips() {
		text := slip.Text()
		for _, r := range receipts {
			switch number := r.Number.String(); {
			case !strings.Contains(text, number):
			case strings.Contains(text, "DUPLICATA"):
				copies[number]++
			default:
				originals[number]++
			}
		}
	}
	tickets, bare := map[validate.TicketKey]bool{}, 0
	for _, r := range receipts {
		number := r.Number.String()
		if tickets[r.Ticket] {
			t.Errorf("entry %s pays a ticket that another has paid", number)
		}
		tickets[r.Ticket] = true
		if originals[number] > 1 {
			t.Errorf("entry %s has %d slips that are no DUPLICATA", number, originals[number])
		}
		if originals[number]+copies[number] == 0 {
			if bare++; r.Print.Done() {
				t.Errorf("entry %s is %s and no slip of it came out", number, r.Print)
			}
		}
	}
	t.Logf("%d rounds ended by a kill; %d claims, %d of them seen to be paid before it, %d with no slip yet; %d slips, %d tickets shown again",
		k.ended, len(receipts), len(k.said), bare, len(k.Paper.Slips()), k.refused)
}
