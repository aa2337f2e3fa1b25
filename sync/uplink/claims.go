package uplink

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"grattoir/sync/wire"
)

// claimTimeout is how long an answer to a claim is waited for: somebody stands at the
// counter, and the same id is asked again.
const claimTimeout = (wire.MaxClaimWait + 5) * time.Second

// askClaims asks central about the claims that wait for its word, and tells it of those
// that were given back. Each answer is durable before anybody acts on it.
func (u *Uplink) askClaims(ctx context.Context) (rest, error) {
	idle := rest{wake: [2]<-chan struct{}{u.opt.Ledger.IntentsChanged()}} // before looking
	list, err := u.opt.Ledger.OpenClaims(ctx)
	if err != nil || len(list) == 0 {
		return idle, storing("claims", err)
	}
	for _, q := range list {
		if err := u.askClaim(ctx, q); err != nil {
			return idle, err
		}
	}
	return rest{now: true}, nil // there may be others by now
}

func (u *Uplink) askClaim(ctx context.Context, q wire.ClaimRequest) error {
	var a wire.ClaimAnswer
	err := u.client().postWithin(ctx, claimTimeout, wire.PathClaim, q, &a)
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Kind == wire.KindBadRequest:
		// It would be refused for ever. Nothing was allowed by it, so nothing is lost.
		a = wire.ClaimAnswer{Protocol: wire.Protocol, Claim: q.Claim, State: wire.ClaimDenied, Why: wire.WhyRefused, Text: clip(e.Text, 200)}
		u.opt.Log.Error("central refuses to be asked about a claim", "claim", q.Claim, "err", err)
	case err != nil:
		return err
	case a.Claim != q.Claim:
		return fmt.Errorf("%w: it answers claim %.40q, asked about %s", ErrAnswer, a.Claim, q.Claim)
	}
	if err := a.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	u.opt.Step("answer")
	if err := u.opt.Ledger.ClaimAnswered(ctx, a); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	u.opt.Step("answered")
	u.heard()
	u.opt.Log.Info("central has answered a claim", "claim", q.Claim, "state", a.State, "why", a.Why, "return", q.Return)
	return nil
}

// sendHolds tells central which holds are kept here, with the journal's head signed.
func (u *Uplink) sendHolds(ctx context.Context) (rest, error) {
	idle := rest{wake: [2]<-chan struct{}{u.held}}
	list, head, err := u.opt.Ledger.HoldsWaiting(ctx, wire.MaxHolds)
	if err != nil || len(list) == 0 {
		return idle, storing("holds", err)
	}
	signature, err := u.me().Sign([]byte(wire.HeadText(u.me().Terminal, head)))
	if err != nil {
		return rest{}, err
	}
	message := wire.HoldUpload{Protocol: wire.Protocol, Head: head, Signature: base64.StdEncoding.EncodeToString(signature), Holds: list}
	var a wire.HoldAnswer
	if err := u.client().postWithin(ctx, claimTimeout, wire.PathHolds, message, &a); err != nil {
		return idle, err
	}
	var stored []int64
	for _, h := range list { // what we sent and it names; what else it names is nothing to us
		if slices.Contains(a.Stored, h.Hold) {
			stored = append(stored, h.Hold)
		}
	}
	if len(stored) == 0 {
		return rest{}, fmt.Errorf("%w: it names none of %d holds as stored", ErrAnswer, len(list))
	}
	u.opt.Step("hold-told")
	if err := u.opt.Ledger.HoldsStored(ctx, stored); err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	u.heard()
	return rest{now: true}, nil
}

// takeAgain is how soon released packs are asked for again: their release may still be on
// its way to central, or what gives them back on its way here.
const takeAgain = 5 * time.Second

// takePacks asks for the packs that this terminal has released and wants again, once
// central knows of the release.
func (u *Uplink) takePacks(ctx context.Context) (rest, error) {
	idle := rest{wake: [2]<-chan struct{}{u.opt.Ledger.IntentsChanged()}}
	wanted, known, err := u.opt.Ledger.Wanted(ctx)
	switch {
	case err != nil:
		return idle, storing("released packs", err)
	case !wanted:
		return idle, nil
	case !known:
		return rest{after: takeAgain, wake: idle.wake}, nil
	}
	var a wire.TakeAnswer
	if err := u.client().postWithin(ctx, claimTimeout, wire.PathTake, wire.TakeRequest{Protocol: wire.Protocol}, &a); err != nil {
		return idle, err
	}
	u.heard()
	u.opt.Log.Info("central gives the packs back", "packs", a.Packs, "feed", a.Feed)
	return rest{after: takeAgain, wake: idle.wake}, nil
}

// Unheard tells whether central was asked about a claim, and no answer comes through.
func (u *Uplink) Unheard() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, failing := u.faults[LaneClaims]
	return failing
}
