package central

import (
	"context"
	"errors"
	"fmt"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// activated takes a pack's activation at the shop. The terminal has paid by it since, so
// it is an entry like any other: what is not legal here is kept as a conflict, and the
// terminal hears in its feed how the pack stands.
func (in *intake) activated(ctx context.Context, l line) error {
	body, err := l.entry.PackActivated()
	if err != nil {
		return err
	}
	blocks, err := blocksOf(ctx, in.tx, body.GameCode)
	if errors.Is(err, ErrNotFound) {
		return in.conflict(ctx, l, l.proof.against(wire.PackRefused, "game code %.12q: no block of it is published", body.GameCode))
	}
	if err != nil {
		return err
	}
	b, ok := blockWith(blocks, body.Pack)
	if !ok {
		return in.conflict(ctx, l, l.proof.against(wire.PackRefused, "pack %d lies in no published block of game code %s", body.Pack, body.GameCode))
	}
	p, err := readPack(ctx, in.tx, b.ID, body.Pack)
	if err != nil {
		return err
	}
	ours := p.owner == in.who.name
	if ours && (p.state == validate.PackActive || p.state == validate.PackSettled) {
		return nil // somebody at central was quicker
	}
	why := fmt.Errorf("%w: pack %d is owned by %s", ErrRefused, body.Pack, p.owner)
	item := p.item(b.GameCode)
	if ours {
		item, why = move{act: ActivatePack}.step(ctx, in.tx, b, body.Pack, in.now)
	} else if p.owner == "" {
		why = fmt.Errorf("%w: pack %d was delivered to nobody", ErrRefused, body.Pack)
	}
	audience := everyone
	if errors.Is(why, ErrRefused) {
		audience, item = in.who.name, p.item(b.GameCode)
		proof := l.proof.against(wire.PackRefused, "%v", why)
		proof.pack = &packKey{b.ID, body.Pack}
		why = in.conflict(ctx, l, proof)
	}
	if why != nil {
		return why
	}
	delete(in.rights, packKey{b.ID, body.Pack}) // claims that follow are judged by what is so now
	in.newest, err = addFeed(ctx, in.tx, audience, in.now, wire.FeedItem{Kind: wire.FeedPack, Pack: &item})
	return err
}
