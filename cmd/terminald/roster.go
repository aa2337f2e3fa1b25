package main

import (
	"context"
	"fmt"

	"grattoir/device/control"
	"grattoir/device/screen"
	"grattoir/sync/ledger/people"
)

// deskRoster is the operators' file as the socket takes it, while the daemon has it open.
type deskRoster struct {
	staff *people.Staff
	shut  error // why it cannot be read
}

// roster is nil on a terminal without sign-on.
func (w *crew) roster() control.Roster {
	if w.staff == nil && w.shut == nil {
		return nil
	}
	return deskRoster{w.staff, w.shut}
}

// choice is who may be chosen on the page, nil on a terminal without sign-on. Whoever is
// suspended is not; whoever is locked out is told so by his PIN's page.
func (w *crew) choice() func(context.Context) ([]screen.Operator, error) {
	if w.staff == nil && w.shut == nil {
		return nil
	}
	return func(ctx context.Context) ([]screen.Operator, error) {
		all, err := w.roster().Operators(ctx)
		list := []screen.Operator{}
		for _, o := range all {
			if !o.Suspended {
				list = append(list, screen.Operator{ID: o.ID, Name: o.Name, Role: o.Role})
			}
		}
		return list, err
	}
}

// Operators lists everybody by id.
func (d deskRoster) Operators(ctx context.Context) ([]control.Operator, error) {
	if d.shut != nil {
		return nil, denied(d.shut)
	}
	list, err := d.staff.Operators(ctx)
	out := []control.Operator{}
	for _, o := range list {
		out = append(out, control.Operator{ID: o.ID, Name: o.Name, Role: string(o.Role), Suspended: o.Suspended, LockedOut: o.LockedOut(), Failed: o.Failed})
	}
	return out, denied(err)
}

// Change does one act, by an operator's PIN. The machine's owner is nobody here. Its errors
// repeat nothing that was typed: it may be a PIN in the wrong field.
func (d deskRoster) Change(ctx context.Context, q control.OperatorChange) error {
	if d.shut != nil {
		return denied(d.shut)
	}
	by, err := credentials(q.Credentials())
	if err != nil {
		return denied(fmt.Errorf("PIN of who does it: %w", err))
	}
	switch q.Act {
	case control.SuspendOperator:
		return denied(d.staff.Suspend(ctx, by, q.ID))
	case control.ResumeOperator:
		return denied(d.staff.Resume(ctx, by, q.ID))
	case control.UnlockOperator:
		return denied(d.staff.Unlock(ctx, by, q.ID))
	case control.AddOperator, control.SetOperatorPIN:
	default:
		return denied(fmt.Errorf("%w: want the act add, suspend, resume, unlock or pin", people.ErrOperator))
	}
	pin, err := people.ParsePIN(q.PIN)
	if err != nil {
		return denied(fmt.Errorf("new PIN: %w", err))
	}
	if q.Act == control.SetOperatorPIN {
		return denied(d.staff.SetPIN(ctx, by, q.ID, pin))
	}
	return denied(d.staff.Add(ctx, by, people.Operator{ID: q.ID, Name: q.Name, Role: people.Role(q.Role)}, pin))
}
