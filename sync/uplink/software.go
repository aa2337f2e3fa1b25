package uplink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grattoir/sync/wire"
)

// Software is the terminal's own software, which installs what lies in Options.UpdateDir.
type Software interface {
	// State is what runs and how far an update has come, nil where that is not known.
	State() *wire.Software
	// Pieces verifies an update's signed manifest, as far as this program can, and gives what
	// it says of the bundle. The installation verifies it anew.
	Pieces(manifest []byte) (wire.Pieces, error)
}

const (
	bundleSuffix = ".raucb"
	updateSuffix = ".update"
)

// ErrUpdate means an update that is not the one that the signed snapshot lists.
var ErrUpdate = errors.New("the update is not the one that central signed for")

// software is what a hello tells. What is on its way comes before what ended.
func (u *Uplink) software() *wire.Software {
	if u.opt.Software == nil {
		return nil
	}
	s := u.opt.Software.State()
	if s == nil {
		return nil
	}
	u.mu.Lock()
	coming := u.coming
	u.mu.Unlock()
	if coming != nil && (s.Update == nil || s.Update.SHA256 != coming.SHA256) {
		own := *s
		own.Update, s = coming, &own
	}
	if err := s.Check(); err != nil {
		u.opt.Log.Warn("what runs here is not told", "err", err)
		return nil
	}
	return s
}

// hearOffer notes what central wants installed.
func (u *Uplink) hearOffer(o *wire.Offer) {
	if u.opt.Software == nil {
		return
	}
	u.mu.Lock()
	same := u.offered && (o == nil) == (u.offer == nil) && (o == nil || *o == *u.offer)
	u.offer, u.offered = o, true
	u.mu.Unlock()
	if !same {
		signal(u.replan)
	}
}

// fetchUpdate brings what central offers into the folder of updates, and takes away what
// it offers no more. What has ended here, well or badly, is not fetched again.
func (f *files) fetchUpdate(ctx context.Context) error {
	f.mu.Lock()
	offer, offered := f.offer, f.offered
	f.mu.Unlock()
	if f.opt.Software == nil || !offered {
		return nil
	}
	var want wire.Release
	if s := f.snapshot(); s != nil && offer != nil {
		at := slices.IndexFunc(s.Software, func(r wire.Release) bool { return r.Name == offer.Name && r.Version == offer.Version })
		if at < 0 {
			return nil // a newer snapshot comes and lists it; until then nothing is taken away
		}
		want = s.Software[at]
	}
	state := f.opt.Software.State()
	ended := state != nil && state.Update != nil && state.Update.SHA256 == want.SHA256 && state.Update.Step.Ended()
	if want.SHA256 == "" || ended {
		f.setComing(nil)
		return f.tidyUpdates("")
	}
	if err := f.tidyUpdates(want.SHA256); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(f.opt.UpdateDir, want.SHA256+updateSuffix)); err == nil {
		return nil
	}
	f.setComing(&wire.UpdateState{Version: want.Version, SHA256: want.SHA256, Step: wire.UpdateDownloading})
	if err := f.bringUpdate(ctx, want); err != nil {
		return fmt.Errorf("software %s %s: %w", want.Name, want.Version, err)
	}
	f.opt.Log.Info("an update is here", "version", want.Version, "sha256", want.SHA256)
	return nil
}

// bringUpdate fetches an update as a block is fetched: each piece by its hash, a cut costs
// at most one, the disk's room is taken before. The manifest makes it visible.
func (f *files) bringUpdate(ctx context.Context, want wire.Release) error {
	manifest, err := f.client().read(ctx, requestTimeout, http.MethodGet, wire.PathUpdates+want.SHA256, nil)
	if err != nil {
		return err
	}
	sums, err := f.opt.Software.Pieces(manifest)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUpdate, err)
	}
	if sums.Block != want.SHA256 || sums.Size != want.Size {
		return fmt.Errorf("%w: its manifest is of bundle %.8s with %d bytes", ErrUpdate, sums.Block, sums.Size)
	}
	b := wire.Block{SHA256: want.SHA256, Size: want.Size}
	store := BlockStore{Dir: f.opt.UpdateDir, Reserve: f.opt.Blocks.Reserve, whole: bundleSuffix, allocate: f.opt.Blocks.allocate}
	if err := store.bring(ctx, b, &sums, f.fetchFrom(wire.PathBundles, b)); err != nil {
		return err
	}
	return store.note(want.SHA256+updateSuffix, string(manifest))
}

func (u *Uplink) setComing(s *wire.UpdateState) {
	u.mu.Lock()
	u.coming = s
	u.mu.Unlock()
}

// tidyUpdates removes every update but one from the folder, each manifest before its
// bundle, so that nothing that is half there is taken for whole.
func (f *files) tidyUpdates(keep string) error {
	list, err := os.ReadDir(f.opt.UpdateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	for _, manifests := range []bool{true, false} {
		for _, e := range list {
			name, _, _ := strings.Cut(e.Name(), ".")
			if name == keep && keep != "" || !IsBlockName(name) || strings.HasSuffix(e.Name(), updateSuffix) != manifests {
				continue
			}
			if err := os.Remove(filepath.Join(f.opt.UpdateDir, e.Name())); err != nil {
				return fmt.Errorf("%w: %w", ErrStore, err)
			}
		}
	}
	return nil
}
