package uplink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

var (
	// ErrOldSnapshot means a signed snapshot older than the one in force: somebody plays
	// an old one again, or central was put back.
	ErrOldSnapshot = errors.New("the snapshot is older than the one in force")
	// ErrBlock means a block file that is not what the signed snapshot lists.
	ErrBlock = errors.New("the block file is not the one that central signed for")
	// ErrStore means that this terminal cannot store what came.
	ErrStore = errors.New("the terminal cannot store it")
	// ErrNoSpace is an ErrStore: the disk has no room for a block beside the reserve. It is
	// found before a byte of it is fetched.
	ErrNoSpace = fmt.Errorf("%w: the disk has no room", ErrStore)
)

// planEvery is how often the choice of blocks is looked at again when nothing is heard:
// a day ends, or somebody brings a file on a stick.
const planEvery = time.Hour

// files is the lane of the snapshot and its blocks.
type files struct {
	*Uplink
	asked bool // central has answered since the start
	text  int  // of the snapshot that it gave
}

// step asks for the snapshot where there may be a newer one, and brings the folder to
// what is chosen of it. The version is in force only after every block that was chosen
// is visible.
func (f *files) step(ctx context.Context) (rest, error) {
	idle := rest{after: planEvery, wake: [2]<-chan struct{}{f.fresh, f.replan}}
	if err := f.refresh(ctx); err != nil {
		return rest{}, errors.Join(err, f.settle(ctx))
	}
	s := f.snapshot()
	if s == nil {
		return idle, nil // nothing is published yet
	}
	if err := f.fetchPolicies(ctx, s); err != nil { // small, and they decide what may be paid
		return rest{}, err
	}
	if err := errors.Join(f.arrange(ctx), f.fetchCatalogue(ctx, s)); err != nil { // blocks first: nothing is paid by a catalogue
		return rest{}, err
	}
	if err := f.opt.Ledger.SetSnapshot(ctx, s.Version, s.Issued); err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	// Last: a terminal that lacks a block pays less, one that lacks an update pays as before.
	return idle, f.fetchUpdate(ctx)
}

// settle is what can be done with no network: people are told what is missing, and a
// snapshot of which everything is here is in force, because a stick may have brought it.
func (f *files) settle(ctx context.Context) error {
	s := f.snapshot()
	if s == nil {
		return nil
	}
	p, _, err := f.look(ctx)
	if err != nil || len(p.fetch) > 0 {
		return err
	}
	if err := f.opt.Ledger.SetSnapshot(ctx, s.Version, s.Issued); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// refresh fetches the snapshot, unless the one at hand is the newest that was heard of.
func (f *files) refresh(ctx context.Context) error {
	if s := f.snapshot(); f.asked && s != nil && s.Version >= f.newestHeard() && f.text >= f.newestText() {
		return nil
	}
	query, text := wire.SnapshotQuery, f.newestText()
	if text >= wire.SnapshotTexts {
		query = wire.SnapshotQuery3
	}
	signed, err := f.client().read(ctx, requestTimeout, http.MethodGet, wire.PathSnapshot+query, nil)
	var e *wire.Error
	if errors.As(err, &e) && e.Kind == wire.KindNotFound {
		f.heard()
		return nil
	}
	if err != nil {
		return err
	}
	s, err := f.openSnapshot(ctx, string(signed))
	if err != nil {
		return err
	}
	f.heard()
	f.heardSigned(s.Issued) // one that was stored before the start is no time since then
	if err := f.opt.Blocks.note(snapshotFile, string(signed)); err != nil {
		return err
	}
	f.asked, f.text = true, text
	f.setSnapshot(&s)
	f.opt.OnListed()
	return nil
}

// arrange drops and fetches until the folder is as it was chosen. The choice is made
// anew after each block, because packs and the region may have been heard of meanwhile.
func (f *files) arrange(ctx context.Context) error {
	tried := map[string]bool{}
	var failed []error
	for {
		p, room, err := f.look(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(p.fetch, func(b wire.Block) bool { return !tried[b.SHA256] })
		var next wire.Block
		if at >= 0 {
			next = p.fetch[at]
		}
		dropped, err := f.makeRoom(p, room, next.Size)
		switch {
		case err != nil:
			return err
		case at < 0 && !dropped:
			if len(failed) > 0 {
				f.asked = false // a newer snapshot may not list it any more
			}
			return errors.Join(append(failed, f.full())...)
		case at < 0:
			continue // there may be room for another now
		}
		tried[next.SHA256] = true
		if err := f.fetchBlock(ctx, next); err != nil {
			failed = append(failed, fmt.Errorf("block %.8s of game code %s: %w", next.SHA256, next.GameCode, err))
		} else {
			f.opt.Log.Info("block", "sha256", next.SHA256, "game_code", next.GameCode, "bytes", next.Size)
			f.opt.OnBlocks()
			signal(f.packs)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// look chooses the blocks as things stand, and tells people what is missing.
func (f *files) look(ctx context.Context) (plan, int64, error) {
	s := f.snapshot()
	if s == nil {
		return plan{}, 0, nil
	}
	there, err := f.opt.Blocks.survey(s.Blocks, f.opt.Held)
	if err != nil {
		return plan{}, 0, err
	}
	packs, err := f.opt.Ledger.OwnPacks(ctx)
	if err != nil {
		return plan{}, 0, fmt.Errorf("%w: %w", ErrStore, err)
	}
	now := f.opt.Blocks.situation(there, s.Blocks, packs, f.Region())
	if floor := f.Floor(); !floor.IsZero() {
		now.today = policy.DateOf(floor.UTC())
	}
	p := choose(now)
	f.setMissing(p.missing, there.taken-there.parts)
	if err := f.opt.Blocks.tidy(p.fetch); err != nil {
		return plan{}, 0, err
	}
	return p, now.room, nil
}

// makeRoom drops what is past its day, and of the least wanted blocks as many as must go
// before one of so many bytes comes.
func (f *files) makeRoom(p plan, room, size int64) (dropped bool, err error) {
	gone := p.leaving(room, size)
	if len(gone) == 0 {
		return false, nil
	}
	err = f.opt.Blocks.remove(gone)
	f.opt.Log.Info("blocks dropped", "sha256", gone, "past or replaced", len(p.gone), "for room", len(gone)-len(p.gone))
	f.opt.OnBlocks()
	signal(f.packs)
	return true, err
}

// full is nil unless the disk keeps out a block for which there is quota.
func (f *files) full() error {
	var blocks, bytes int64
	for _, m := range f.missingBlocks() {
		if m.Why == WhyDisk {
			blocks, bytes = blocks+1, bytes+m.Size
		}
	}
	if blocks == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s cannot take %d blocks of %d bytes beside the reserve: free some space, or lower quota_mb", ErrNoSpace, f.opt.Blocks.Dir, blocks, bytes)
}

// recall reads what central said last before the start.
func (u *Uplink) recall(ctx context.Context) error {
	region, err := u.opt.Blocks.noted(regionFile, 100)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	u.region = regionOf(region)
	_, err = u.reread(ctx)
	return err
}

// regionOf reads the noted region, "" where there is none.
func regionOf(text string) string {
	if text = strings.TrimSpace(text); wire.ValidRegion(text) {
		return text
	}
	return ""
}

// Reread looks what lies in the folder of blocks, where another program has put something
// there: a stick brings a newer snapshot, and blocks.
func (u *Uplink) Reread(ctx context.Context) error {
	newer, err := u.reread(ctx)
	if newer {
		u.opt.OnListed()
		u.opt.OnCatalogue()
	}
	signal(u.replan)
	return err
}

func (u *Uplink) reread(ctx context.Context) (newer bool, err error) {
	signed, err := u.opt.Blocks.noted(snapshotFile, wire.MaxAnswer)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if signed == "" {
		return false, nil
	}
	s, err := u.openSnapshot(ctx, signed)
	if err != nil { // of another central, or spoiled: the next answer brings it again
		u.opt.Log.Warn("the stored snapshot is not used", "err", err)
		return false, nil
	}
	if old := u.snapshot(); old != nil && old.Version >= s.Version {
		return false, nil
	}
	u.setSnapshot(&s)
	return true, nil
}

// snapshot is the newest accepted one, nil before the first.
func (u *Uplink) snapshot() *wire.Snapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listed
}

func (u *Uplink) setSnapshot(s *wire.Snapshot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listed = s
}

// Listed are the blocks that central lists, here or not; they must not be changed.
func (u *Uplink) Listed() []wire.Block {
	if s := u.snapshot(); s != nil {
		return s.Blocks
	}
	return nil
}

func (u *Uplink) newestHeard() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told
}

// hearSnapshot notes which version central has.
func (u *Uplink) hearSnapshot(version int64) {
	u.mu.Lock()
	u.told = max(u.told, version)
	newer := u.listed == nil || u.listed.Version < version
	u.mu.Unlock()
	if newer && version > 0 {
		signal(u.fresh)
	}
}

// Region is where the terminal stands, as central said last; "" for nowhere in particular.
func (u *Uplink) Region() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.region
}

func (u *Uplink) setRegion(region string) error {
	if region == u.Region() {
		return nil
	}
	if region != "" && !wire.ValidRegion(region) {
		return fmt.Errorf("%w: region %.20q", ErrAnswer, region)
	}
	if err := u.opt.Blocks.note(regionFile, region+"\n"); err != nil {
		return err
	}
	u.mu.Lock()
	u.region = region
	u.mu.Unlock()
	signal(u.replan)
	return nil
}

func (u *Uplink) missingBlocks() []Missing {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.missing)
}

// setMissing tells people what is not here. The log gets it when it changes.
func (u *Uplink) setMissing(list []Missing, taken int64) {
	u.mu.Lock()
	was := u.missing
	u.missing, u.folder = list, taken
	u.mu.Unlock()
	lacking := func(m Missing) bool { return m.Why != WhyComing }
	before, now := slices.DeleteFunc(slices.Clone(was), not(lacking)), slices.DeleteFunc(slices.Clone(list), not(lacking))
	if slices.Equal(before, now) {
		return
	}
	var bytes, own int64
	for _, m := range now {
		bytes += m.Size
		if m.Own {
			own++
			u.opt.Log.Warn("a block of this terminal's packs is not held: its tickets are answered with block-not-here",
				"game_code", m.GameCode, "first_pack", m.FirstPack, "last_pack", m.LastPack, "why", m.Why)
		}
	}
	u.opt.Log.Info("blocks that are listed and not held", "blocks", len(now), "bytes", bytes, "own", own)
}

func not[T any](f func(T) bool) func(T) bool { return func(x T) bool { return !f(x) } }

// openSnapshot verifies a snapshot: central's signature, the canonical text, a version
// that does not go back, and names that are hashes and nothing else.
func (u *Uplink) openSnapshot(ctx context.Context, signed string) (wire.Snapshot, error) {
	text, err := u.openNote(signed)
	if err != nil {
		return wire.Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	s, err := wire.ParseSnapshot(text)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	inForce, err := u.opt.Ledger.Snapshot(ctx)
	if err != nil {
		return s, err
	}
	return s, checkSnapshot(s, inForce)
}

// checkSnapshot refuses a version that goes back, and names that are not hashes.
func checkSnapshot(s wire.Snapshot, inForce int64) error {
	if s.Version < inForce {
		return fmt.Errorf("%w: version %d, in force is %d", ErrOldSnapshot, s.Version, inForce)
	}
	named := map[string]bool{}
	for n, b := range s.Blocks {
		raw, err := hex.DecodeString(b.SHA256)
		if err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != b.SHA256 {
			return fmt.Errorf("%w: block %d of snapshot %d is named %.64q", ErrBlock, n+1, s.Version, b.SHA256)
		}
		if named[b.SHA256] {
			return fmt.Errorf("%w: snapshot %d lists block %.8s twice", ErrBlock, s.Version, b.SHA256)
		}
		named[b.SHA256] = true
		if b.Size < 1 || b.Size > wire.MaxBlock {
			return fmt.Errorf("%w: block %.8s has %d bytes, at most %d", ErrBlock, b.SHA256, b.Size, wire.MaxBlock)
		}
	}
	return nil
}
