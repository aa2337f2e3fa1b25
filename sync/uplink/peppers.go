package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

const pepperEvery = time.Hour // a pepper that was refused is asked for again, should no feed item come

// fetchPeppers asks for the peppers that blocks here lack. Central gives one only to a
// terminal that owns packs of its block, so a refusal is no fault: the block's tickets
// stay central's to answer.
func (u *Uplink) fetchPeppers(ctx context.Context) (rest, error) {
	for _, block := range u.opt.Peppers() {
		var a wire.PepperAnswer
		err := u.client().get(ctx, requestTimeout, wire.PathPeppers+block.String(), &a)
		var e *wire.Error
		if errors.As(err, &e) && e.Kind == wire.KindNotFound {
			u.heard()
			continue
		}
		if err != nil {
			return rest{}, fmt.Errorf("pepper of block %v: %w", block, err)
		}
		sealed, err := wire.ParseSealedPepper(a.Pepper)
		if err != nil || sealed.Block != block || sealed.Terminal != u.me().Terminal {
			return rest{}, fmt.Errorf("%w: pepper of block %v: it is of block %v and terminal %.64q: %w", ErrAnswer, block, sealed.Block, sealed.Terminal, err)
		}
		u.heard()
		if err := u.opt.KeepPepper(sealed); err != nil {
			return rest{}, fmt.Errorf("%w: pepper of block %v: %w", ErrStore, block, err)
		}
		u.opt.Log.Info("pepper", "block", block)
	}
	return rest{after: pepperEvery, wake: [2]<-chan struct{}{u.packs}}, nil
}

// OpenPepper opens a pepper that was sealed to this terminal's key.
func (i Identity) OpenPepper(s wire.SealedPepper) (manifest.Pepper, error) {
	if s.Terminal != i.Terminal || i.key == nil {
		return manifest.Pepper{}, fmt.Errorf("block %v: %w: it is sealed to terminal %.64q", s.Block, wire.ErrPepper, s.Terminal)
	}
	key, err := i.key.ECDH()
	if err != nil {
		return manifest.Pepper{}, fmt.Errorf("%w: %w", wire.ErrPepper, err)
	}
	return s.Open(key)
}
