package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"grattoir/sync/wire"
)

// A release is the owner's word that it pays packs no more: an entry, so that it stands
// after every payment by that right, and rows beside it, which Record asks. Central gives
// the packs back at a raised owner epoch, and only that ends it.

// ReleaseReason says why packs were released.
type ReleaseReason string

const (
	ReleaseClosing ReleaseReason = "closing" // the shop closes for the day
	ReleaseAsked   ReleaseReason = "asked"   // somebody at the terminal
	ReleaseMoved   ReleaseReason = "moved"   // central gave them to another terminal
)

// ReleaseBody releases packs. Nothing after this entry pays them at these owner epochs.
type ReleaseBody struct {
	Reason   ReleaseReason   `json:"reason"`
	Operator string          `json:"operator"`
	Packs    []ReleasedPacks `json:"packs"`
}

// ReleasedPacks are a run of packs, both ends included, with the owner epoch given up.
type ReleasedPacks struct {
	GameCode   string `json:"game_code"`
	First      uint32 `json:"first"`
	Last       uint32 `json:"last"`
	OwnerEpoch int64  `json:"owner_epoch"`
}

// Release reads the body of a release entry.
func (e Entry) Release() (ReleaseBody, error) { return bodyOf[ReleaseBody](e, KindRelease) }

// maxReleased bounds the runs of one entry, so that it fits a line.
const maxReleased = 100

// Release gives up all packs of this terminal: from this commit on it pays their tickets by
// central's word only, until central gives them back. It tells how many runs it gave up; those
// that are given up already are not named again.
func (l *Ledger) Release(ctx context.Context, operator string, why ReleaseReason) (runs int, err error) {
	if operator != "" { // a terminal without sign-on names nobody
		if err := checkName("operator", operator); err != nil {
			return 0, fmt.Errorf("release: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		own, err := packRuns(ctx, w.tx, "owner = ?", l.opt.Terminal)
		if err != nil {
			return err
		}
		if runs, err = w.release(ctx, own, operator, why); err != nil {
			return err
		}
		_, err = w.exec(ctx, "UPDATE wishes SET take = 0")
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("release this terminal's packs: %w", err)
	}
	return runs, nil
}

func (w *writing) release(ctx context.Context, own []wire.PackItem, operator string, why ReleaseReason) (int, error) {
	var list []ReleasedPacks
	for _, p := range own {
		gone, err := released(ctx, w.tx, p.GameCode, p.First, p.Last, p.Epoch)
		if err != nil {
			return 0, err
		}
		if !gone {
			list = append(list, ReleasedPacks{p.GameCode, p.First, p.Last, p.Epoch})
		}
	}
	for part := range slices.Chunk(list, maxReleased) {
		n, _, err := w.append(ctx, KindRelease, ReleaseBody{why, operator, part})
		if err != nil {
			return 0, err
		}
		for _, r := range part {
			if _, err := w.exec(ctx, insertRelease, r.GameCode, r.First, r.Last, r.OwnerEpoch, n.Epoch, n.Seq); err != nil {
				return 0, err
			}
		}
	}
	return len(list), nil
}

const insertRelease = `INSERT INTO releases(game_code, first, last, owner_epoch, epoch, seq) VALUES(?, ?, ?, ?, ?, ?)
	ON CONFLICT(game_code, first, owner_epoch) DO UPDATE SET last = max(last, excluded.last), epoch = excluded.epoch, seq = excluded.seq`

// moved releases what an item of the feed takes away from this terminal: central learns
// from the entry that no payment by the old right follows.
func (w *writing) moved(ctx context.Context, p wire.PackItem) error {
	if p.Owner == w.l.opt.Terminal {
		return nil
	}
	old, err := packsTouching(ctx, w.tx, p.GameCode, int64(p.First), int64(p.Last))
	if err != nil {
		return err
	}
	var gone []wire.PackItem
	for _, o := range old {
		if o.Owner == w.l.opt.Terminal && o.Epoch < p.Epoch {
			o.First, o.Last = max(o.First, p.First), min(o.Last, p.Last)
			gone = append(gone, o)
		}
	}
	_, err = w.release(ctx, gone, "", ReleaseMoved)
	return err
}

// released tells whether all of a run was given up at an owner epoch, or at a later one,
// by one release.
func released(ctx context.Context, q querier, gameCode string, first, last uint32, epoch int64) (gone bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM releases WHERE game_code = ? AND first <= ? AND last >= ? AND owner_epoch >= ?)", gameCode, first, last, epoch).Scan(&gone)
	return gone, err
}

// Released tells whether this terminal has given a pack up at an owner epoch.
func (l *Ledger) Released(ctx context.Context, gameCode string, pack uint32, epoch int64) (bool, error) {
	gone, err := released(ctx, l.read, gameCode, pack, pack, epoch)
	if err != nil {
		return true, fmt.Errorf("whether pack %d of game code %.16q was released: %w", pack, gameCode, l.seen(err))
	}
	return gone, nil
}

// TakeBack notes, durably, that this terminal wants its released packs again. Central is
// asked for them until it has given them back, or they are released anew.
func (l *Ledger) TakeBack(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		_, err := w.exec(ctx, "UPDATE wishes SET take = 1")
		return err
	})
	if err != nil {
		return fmt.Errorf("take the packs back: %w", err)
	}
	l.intentChanged()
	return nil
}

// Wanted tells whether released packs are wanted again, and whether central knows of
// their release, before which it cannot give them back.
func (l *Ledger) Wanted(ctx context.Context) (wanted, known bool, err error) {
	var open, unsent int64
	err = l.read.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(r.epoch = a.epoch AND r.seq > a.seq), 0) FROM packs p JOIN releases r ON r.game_code = p.game_code AND r.first <= p.last AND r.last >= p.first AND r.owner_epoch >= p.epoch
		JOIN wishes w ON w.take = 1 LEFT JOIN acks a ON a.epoch = r.epoch WHERE p.owner = ?`, l.opt.Terminal).Scan(&open, &unsent)
	if err != nil {
		return false, false, fmt.Errorf("read the released packs: %w", l.seen(err))
	}
	return open > 0, unsent == 0, nil
}

// errNoRelease means that the table of releases is not what the entry says.
var errNoRelease = errors.New("the table of releases does not have its packs")

// release holds a release entry against its rows.
func (k *closeChecker) release(ctx context.Context, e Entry) error {
	b, err := e.Release()
	if err != nil || k.q == nil || !k.rights {
		return err
	}
	for _, r := range b.Packs {
		var n int
		// A later release of the same run and epoch has taken the row over.
		err := k.q.QueryRowContext(ctx, "SELECT count(*) FROM releases WHERE game_code = ? AND first = ? AND last >= ? AND owner_epoch = ?", r.GameCode, r.First, r.Last, r.OwnerEpoch).Scan(&n)
		if err != nil || n != 1 {
			return fmt.Errorf("%w: %d-%d of game code %.16q: %w", errNoRelease, r.First, r.Last, r.GameCode, orGone(err))
		}
	}
	return nil
}

func (in *intake) release(e Entry) error {
	b, err := e.Release()
	if err != nil {
		return err
	}
	for _, r := range b.Packs {
		if err := in.exec(insertRelease, r.GameCode, r.First, r.Last, r.OwnerEpoch, e.Epoch, e.Seq); err != nil {
			return err
		}
	}
	return nil
}
