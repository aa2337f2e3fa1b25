package uplink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
)

// Register is what the uplink needs of the terminal's register of identities.
// *people.Register is one, and its documentation is the contract.
type Register interface {
	// Changed is closed when the next record is stored.
	Changed() <-chan struct{}
	Count(ctx context.Context) (all, pending int, err error)
	Pending(ctx context.Context, limit int) ([]people.Sealed, error)
	Acknowledge(ctx context.Context, ids []people.RecordID) error
}

const identitiesEvery = time.Hour // looked again, should no record come

// sendIdentities sends records of the register as they were sealed, and acknowledges what
// central names as stored. What fails says no more than ids.
func (u *Uplink) sendIdentities(ctx context.Context) (rest, error) {
	idle := rest{after: identitiesEvery, wake: [2]<-chan struct{}{u.opt.Register.Changed()}} // before looking
	// Counting leaves no line in the register's audit, handing records out does.
	_, pending, err := u.opt.Register.Count(ctx)
	if err != nil || pending == 0 {
		return idle, storing("identities", err)
	}
	list, err := u.opt.Register.Pending(ctx, wire.MaxIdentities)
	if err != nil || len(list) == 0 {
		return idle, storing("identities", err)
	}
	message := wire.IdentityUpload{Protocol: wire.Protocol}
	for _, s := range list {
		r := wire.SealedIdentity{Record: s.Record.String(), Claims: s.Claims, Sealed: s.Bytes}
		if err := r.Check(); err != nil {
			return rest{}, storing("identities", err)
		}
		message.Records = append(message.Records, r)
	}
	var a wire.IdentityAnswer
	if err := u.client().post(ctx, wire.PathIdentities, message, &a); err != nil {
		return rest{}, fmt.Errorf("identities: %w", err)
	}
	var stored []people.RecordID
	for _, s := range list { // what we sent and it names; what else it names is nothing to us
		if slices.Contains(a.Stored, s.Record.String()) {
			stored = append(stored, s.Record)
		}
	}
	if len(stored) < len(list) {
		err = fmt.Errorf("%w: it names %d of %d identities as stored", ErrAnswer, len(stored), len(list))
	}
	if len(stored) == 0 {
		return rest{}, err
	}
	if failed := u.opt.Register.Acknowledge(ctx, stored); failed != nil {
		return rest{}, storing("identities", failed)
	}
	u.heard()
	u.opt.Log.Info("identities stored by central", "records", len(stored))
	return rest{now: true}, err
}

// storing names an error of the terminal's own disk.
func storing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrStore, what, err)
}
