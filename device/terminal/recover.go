package terminal

import (
	"context"

	"grattoir/validate"
)

// Recover finds what the last run could not finish. A slip in the state sending may lie
// on the counter, whole or in part, or may never have begun: nobody can tell, so its
// next copy is a DUPLICATA. A slip held by a fault had sent nothing and stays the
// original. The claims themselves need nothing: they were durable before anything was
// shown. It must end before the first scan is accepted, and writes nothing: a disk
// that is full must not keep a terminal from answering. It returns how many slips may lie
// cut off in the printer: those, and one whose end nobody saw, if none came out after it.
func (t *Terminal) Recover(ctx context.Context) (int, error) {
	waiting, err := t.opt.Ledger.Unprinted(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range waiting {
		if r.Print == validate.Sending {
			t.doubtful[r.Number] = true
			t.opt.Log.Warn("the power went or the program ended while a slip was being printed: its next copy is a DUPLICATA", "seq", r.Number.Seq)
		}
	}
	return len(t.doubtful) + t.lookBack(ctx), nil
}

// lookBack finds the newest payments whose slip may not have come out, and how many of them
// no other slip came out after. It is done once: what comes later is marked by this run.
func (t *Terminal) lookBack(ctx context.Context) (cut int) {
	const payments = 200 // a day of a busy shop
	list, err := t.opt.Ledger.Last(ctx, payments)
	t.say("cannot read the newest payments", err) // a reminder less keeps no terminal from starting
	t.looked = err == nil
	after := false
	for _, r := range list {
		if r.Print == validate.Unknown {
			t.unsure[r.Number] = true
			if !after {
				cut++ // the cable was out, or the printer silent, when the last run ended
			}
		}
		after = after || r.Print.Done()
	}
	return cut
}
