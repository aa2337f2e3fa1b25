package uplink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"grattoir/sync/wire"
)

// ErrCatalogue means a catalogue that is not the one that the signed snapshot lists.
var ErrCatalogue = errors.New("the catalogue is not the one that central signed for")

// catalogueFile lies beside the blocks, so that it holds with no network.
const catalogueFile = "catalogue"

// hearTexts notes which text of the snapshot central gives: one that names more may be
// fetched then, of the version at hand.
func (u *Uplink) hearTexts(texts int) {
	texts = min(texts, wire.SnapshotTexts)
	u.mu.Lock()
	more := texts > u.texts
	u.texts = max(u.texts, texts)
	u.mu.Unlock()
	if more {
		signal(u.fresh)
	}
}

func (u *Uplink) newestText() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.texts
}

// fetchCatalogue brings the catalogue that the snapshot lists, whole or not at all. A
// snapshot that lists none leaves the one that is here.
func (f *files) fetchCatalogue(ctx context.Context, s *wire.Snapshot) error {
	want := s.Catalogue
	if want == (wire.CatalogueFile{}) {
		return nil
	}
	if text, err := f.Catalogue(); err == nil && text != nil {
		return nil
	}
	text, err := f.client().read(ctx, requestTimeout, http.MethodGet, wire.PathCatalogues+want.SHA256, nil)
	if err != nil {
		return err
	}
	if err := isCatalogue(text, want); err != nil {
		return err
	}
	if err := f.opt.Blocks.note(catalogueFile, string(text)); err != nil {
		return err
	}
	f.opt.Log.Info("catalogue", "sha256", want.SHA256, "bytes", want.Size)
	f.opt.OnCatalogue()
	return nil
}

func isCatalogue(text []byte, want wire.CatalogueFile) error {
	sum := sha256.Sum256(text)
	if int64(len(text)) != want.Size || hex.EncodeToString(sum[:]) != want.SHA256 {
		return fmt.Errorf("%w: %d bytes with SHA-256 %.8x, listed with %d", ErrCatalogue, len(text), sum, want.Size)
	}
	return nil
}

// Catalogue is the catalogue of games that central signed for, nil where none is here. The
// errors include ErrCatalogue, for a file that was changed: it is fetched again.
func (u *Uplink) Catalogue() ([]byte, error) {
	s := u.snapshot()
	if s == nil || s.Catalogue == (wire.CatalogueFile{}) {
		return nil, nil
	}
	text, err := u.opt.Blocks.noted(catalogueFile, wire.MaxCatalogue)
	if err != nil || text == "" {
		return nil, err
	}
	return []byte(text), isCatalogue([]byte(text), s.Catalogue)
}

// Software is what central names of software, by name and hash, none before it has. Nothing
// is fetched or installed by it here.
func (u *Uplink) Software() []wire.Release {
	if s := u.snapshot(); s != nil {
		return slices.Clone(s.Software)
	}
	return nil
}
