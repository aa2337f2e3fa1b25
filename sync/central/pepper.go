package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// Peppers lie in files of their own, mode 0600, and in no table: a copy of the database
// for a report must not hold what opens a block.

func (c *Central) pepperPath(block validate.BlockID) string {
	return filepath.Join(c.opt.Dir, "peppers", block.String()+".pepper")
}

func (c *Central) keepPepper(block validate.BlockID, p manifest.Pepper) error {
	return writeWhole(c.pepperPath(block), []byte(p.Text()), 0o600)
}

// pepper reads the pepper of a block, or ErrNotFound.
func (c *Central) pepper(block validate.BlockID) (manifest.Pepper, error) {
	text, err := readKeyFile(c.pepperPath(block))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest.Pepper{}, fmt.Errorf("pepper of block %v: %w", block, ErrNotFound)
	}
	if err != nil {
		return manifest.Pepper{}, fmt.Errorf("pepper of block %v: %w", block, err)
	}
	p, err := manifest.ParsePepper(string(text))
	if err != nil {
		return p, fmt.Errorf("pepper of block %v: %w: bring the file back from its copy", block, err)
	}
	return p, nil
}

// SealedPepper gives a block's pepper as one terminal alone can open it, with the key
// that it enrolled: for the link, and for a stick where there is no network. Only a
// terminal that owns a pack of the block gets it: whoever has pepper and manifest can
// search for the winners. The errors include ErrNotFound and ErrRefused.
func (c *Central) SealedPepper(ctx context.Context, terminal string, block validate.BlockID) (wire.SealedPepper, error) {
	var raw []byte
	var state TerminalState
	err := c.store.reader().QueryRowContext(ctx, "SELECT state, public_key FROM terminals WHERE name = $1", terminal).Scan(&state, &raw)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wire.SealedPepper{}, fmt.Errorf("terminal %.64q: %w", terminal, ErrNotFound)
	case err != nil:
		return wire.SealedPepper{}, err
	case state != Enrolled:
		return wire.SealedPepper{}, fmt.Errorf("terminal %s is %s: %w: it has no key that counts", terminal, state, ErrRefused)
	}
	var packs int
	if err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM packs WHERE block_id = $1 AND owner = $2", block[:], terminal).Scan(&packs); err != nil {
		return wire.SealedPepper{}, err
	}
	if packs == 0 {
		return wire.SealedPepper{}, fmt.Errorf("block %v: %w: terminal %s owns no pack of it", block, ErrNotFound, terminal)
	}
	p, err := c.pepper(block)
	if err != nil {
		return wire.SealedPepper{}, err
	}
	key, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return wire.SealedPepper{}, fmt.Errorf("terminal %s: %w", terminal, err)
	}
	device, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return wire.SealedPepper{}, fmt.Errorf("terminal %s: its key is no ECDSA key", terminal)
	}
	return wire.SealPepper(device, terminal, block, p)
}

func (c *Central) servePepper(w http.ResponseWriter, r *http.Request, who caller) {
	var block validate.BlockID
	if err := block.UnmarshalText([]byte(r.PathValue("block"))); err != nil {
		c.fail(w, r, wireError(wire.KindBadRequest, "%v", err))
		return
	}
	sealed, err := c.SealedPepper(r.Context(), who.name, block)
	if errors.Is(err, ErrNotFound) {
		err = wireError(wire.KindNotFound, "%v", err)
	}
	c.answer(w, r, wire.PepperAnswer{Protocol: wire.Protocol, Pepper: sealed.Text()}, err)
}
