package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

// stickPart ends the name of a block that comes from a stick, so that a download of the
// same block goes on beside it; it ends in partSuffix.
const stickPart = ".stick" + partSuffix

// ErrStick means that the stick cannot be read: it was pulled out, or is worn.
var ErrStick = errors.New("the stick cannot be read")

// StickOptions bring a terminal's folders what a stick carries.
type StickOptions struct {
	Dir      string   // the stick's folder, which central.WriteStick wrote
	Identity Identity // the terminal's: whom it believes
	Blocks   BlockStore
	Packs    []wire.PackItem // of this terminal, see ledger.OwnPacks
	Floor    time.Time       // it is not earlier; zero when nothing is trusted
	Log      *slog.Logger    // nil for none
	Progress func(block wire.Block)
}

// StickReport is what came of it.
type StickReport struct {
	Snapshot int64        // its version
	Issued   time.Time    // by central's clock
	Taken    []wire.Block // that were not here before
	Missing  []Missing    // blocks that are listed, and neither here nor on the stick
}

// TakeStick brings the folder of blocks to what a stick's snapshot lists, by the same
// rules and checks as the link: central's signature, no version that goes back, the most
// wanted blocks within the quota, each piece and each whole by its hash, visible only
// when whole. The daemon may run; Reread tells it. What was interrupted goes on at the
// next call. A block that is bad on the stick stops no other; the errors include
// ErrStick, ErrSignature, ErrOldSnapshot, ErrBlock, ErrStore and ErrNoSpace.
func TakeStick(ctx context.Context, o StickOptions) (StickReport, error) {
	r, err := takeStick(ctx, o)
	if err != nil {
		return r, fmt.Errorf("stick %s: %w", o.Dir, err)
	}
	return r, nil
}

func takeStick(ctx context.Context, o StickOptions) (r StickReport, err error) {
	stick, err := os.OpenRoot(o.Dir) // no link on it leads out of it
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrStick, err)
	}
	defer stick.Close()
	s, signed, err := o.snapshot(stick)
	if err != nil {
		return r, err
	}
	r.Snapshot, r.Issued = s.Version, s.Issued
	var failed []error
	if err := o.catalogue(stick, s); errors.Is(err, ErrStore) {
		return r, err
	} else if err != nil {
		failed = append(failed, err)
	}
	if err := o.Blocks.note(snapshotFile, signed); err != nil {
		return r, err
	}
	tried := map[string]bool{}
	for {
		p, room, err := o.plan(s)
		if err != nil {
			return r, err
		}
		r.Missing = p.missing
		at := slices.IndexFunc(p.fetch, func(b wire.Block) bool { return !tried[b.SHA256] && there(stick, b) })
		if at < 0 {
			return r, errors.Join(failed...)
		}
		b := p.fetch[at]
		tried[b.SHA256] = true
		if err := o.Blocks.remove(p.leaving(room, b.Size)); err != nil {
			return r, err
		}
		switch err := o.take(ctx, stick, b); {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case err != nil:
			failed = append(failed, fmt.Errorf("block %.8s of game code %s: %w", b.SHA256, b.GameCode, err))
		default:
			r.Taken = append(r.Taken, b)
		}
	}
}

// snapshot reads and verifies the stick's snapshot against what was noted last, in the
// text that names most.
func (o StickOptions) snapshot(stick *os.Root) (s wire.Snapshot, signed string, err error) {
	text, err := readStick(stick, wire.StickSnapshot, wire.MaxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return s, "", fmt.Errorf("%w: there is no %s on it: is this the folder that central stick make wrote, to its end?", ErrStick, wire.StickSnapshot)
	}
	if err != nil {
		return s, "", fmt.Errorf("%w: %w", ErrStick, err)
	}
	if s, err = o.open(string(text)); err != nil {
		return s, "", fmt.Errorf("snapshot: %w", err)
	}
	if more, err := readStick(stick, wire.StickWhole, wire.MaxAnswer); err == nil {
		if whole, err := o.open(string(more)); err == nil && whole.Version == s.Version {
			s, text = whole, more
		}
	}
	var inForce int64
	if noted, err := o.Blocks.noted(snapshotFile, wire.MaxAnswer); err != nil {
		return s, "", fmt.Errorf("%w: %w", ErrStore, err)
	} else if old, err := o.open(noted); err == nil {
		inForce = old.Version
	}
	return s, string(text), checkSnapshot(s, inForce)
}

// catalogue takes the catalogue that the snapshot lists, unless it is here.
func (o StickOptions) catalogue(stick *os.Root, s wire.Snapshot) error {
	if s.Catalogue == (wire.CatalogueFile{}) {
		return nil
	}
	if here, err := o.Blocks.noted(catalogueFile, wire.MaxCatalogue); err == nil && isCatalogue([]byte(here), s.Catalogue) == nil {
		return nil
	}
	text, err := readStick(stick, wire.StickCatalogue, wire.MaxCatalogue)
	if err != nil {
		return fmt.Errorf("%w: the catalogue of games: %w", ErrStick, err)
	}
	if err := isCatalogue(text, s.Catalogue); err != nil {
		return err
	}
	return o.Blocks.note(catalogueFile, string(text))
}

// readStick reads a file of a stick, of at most limit bytes and one more.
func readStick(stick *os.Root, name string, limit int64) ([]byte, error) {
	f, err := stick.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func (o StickOptions) open(signed string) (wire.Snapshot, error) {
	text, err := o.Identity.openNote(signed)
	if err != nil {
		return wire.Snapshot{}, err
	}
	s, err := wire.ParseSnapshot(text)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return s, nil
}

// plan chooses as the link does.
func (o StickOptions) plan(s wire.Snapshot) (plan, int64, error) {
	c, err := o.Blocks.survey(s.Blocks, o.header)
	if err != nil {
		return plan{}, 0, err
	}
	region, err := o.Blocks.noted(regionFile, 100)
	if err != nil {
		return plan{}, 0, fmt.Errorf("%w: %w", ErrStore, err)
	}
	now := o.Blocks.situation(c, s.Blocks, o.Packs, regionOf(region))
	if !o.Floor.IsZero() {
		now.today = policy.DateOf(o.Floor.UTC())
	}
	return choose(now), now.room, nil
}

// header reads what a block file in the folder is; one that no key here has signed is
// not known.
func (o StickOptions) header(sha256 string) (Held, bool) {
	ring, err := manifest.NewKeys(1, o.Identity.SealKeys...)
	if err != nil {
		return Held{}, false
	}
	b, err := manifest.Open(context.Background(), filepath.Join(o.Blocks.Dir, sha256+blockSuffix), ring)
	if b == nil {
		return Held{}, false
	}
	defer b.Close()
	h := b.Header
	return Held{GameCode: h.GameCode, FirstPack: h.FirstPack, LastPack: h.LastPack(), Sound: err == nil}, true
}

func there(stick *os.Root, b wire.Block) bool {
	info, err := stick.Stat(filepath.Join(wire.StickBlocks, b.SHA256+blockSuffix))
	return err == nil && info.Mode().IsRegular()
}

// take brings one block from the stick.
func (o StickOptions) take(ctx context.Context, stick *os.Root, b wire.Block) error {
	if o.Progress != nil {
		o.Progress(b)
	}
	f, err := stick.Open(filepath.Join(wire.StickBlocks, b.SHA256+blockSuffix))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStick, err)
	}
	defer f.Close()
	var sums *wire.Pieces
	if b.Pieces != "" {
		if sums, err = stickPieces(stick, b); err != nil {
			cmp.Or(o.Log, slog.New(slog.DiscardHandler)).Warn("a descriptor on the stick is not used", "err", err)
		}
	}
	store := o.Blocks
	store.suffix = stickPart
	return store.bring(ctx, b, sums, source{lost: ErrStick, open: func(ctx context.Context, from, to int64) (io.ReadCloser, int64, error) {
		return io.NopCloser(io.NewSectionReader(f, from, to-from)), from, ctx.Err()
	}})
}

func stickPieces(stick *os.Root, b wire.Block) (*wire.Pieces, error) {
	text, err := readStick(stick, filepath.Join(wire.StickBlocks, b.Pieces+piecesSuffix), wire.MaxPieces)
	if err != nil {
		return nil, err
	}
	return describes(b, string(text))
}
