package terminal

import (
	"context"

	"grattoir/validate"
)

// Recover finishes what the last run could not. A slip in the state sending may lie on
// the counter, whole or in part, or may never have begun: nobody can tell, so its next
// copy is a DUPLICATA. A slip held by a fault had sent nothing and stays the original.
// The claims themselves need nothing: they were durable before anything was shown.
// It must end before the first scan is accepted.
func (t *Terminal) Recover(ctx context.Context) error {
	waiting, err := t.opt.Ledger.Unprinted(ctx)
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if r.Print != validate.Sending {
			continue
		}
		again, err := t.opt.Ledger.BeginCopy(ctx, r.Number)
		if err != nil {
			return err
		}
		t.opt.Log.Warn("the power went or the program ended while a slip was being printed: its next copy is a DUPLICATA",
			"seq", r.Number.Seq, "copy", again.Copies)
	}
	return nil
}
