package central

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// StickOrder says what a stick is to carry.
type StickOrder struct {
	// Terminals get their peppers with it, and the stick carries the blocks of their packs
	// alone. With none it carries every block, and no pepper.
	Terminals []string
	All       bool     // every block, also with Terminals
	Policies  []string // files of signed policies
	Progress  func(bytes int64)
}

// Stick is what a stick carries.
type Stick struct {
	Snapshot int64 `json:"snapshot"`
	Blocks   int   `json:"blocks"`
	Bytes    int64 `json:"bytes"`  // of the blocks
	Copied   int   `json:"copied"` // of the blocks, the others were there
	Peppers  int   `json:"peppers"`
	Policies int   `json:"policies"`
}

// WriteStick writes the newest snapshot and what it lists into a folder, usually on a USB
// stick, for terminalctl stick import. What lies there whole already is not copied again.
// The snapshot is written last, so that a stick that was pulled out early is no stick.
func (c *Central) WriteStick(ctx context.Context, dir string, o StickOrder) (s Stick, err error) {
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if err := c.writeStick(ctx, dir, o, &s); err != nil {
		return Stick{}, fmt.Errorf("stick %s: %w", dir, err)
	}
	return s, nil
}

func (c *Central) writeStick(ctx context.Context, dir string, o StickOrder, s *Stick) error {
	version, texts, err := c.snapshotTexts(ctx)
	if err != nil {
		return err
	}
	s.Snapshot = version
	for _, sub := range []string{wire.StickBlocks, wire.StickPeppers, wire.StickPolicies} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	blocks, err := c.Blocks(ctx)
	if err != nil {
		return err
	}
	owned := map[validate.BlockID]bool{}
	for _, terminal := range o.Terminals {
		if err := c.stickPeppers(ctx, dir, terminal, owned, s); err != nil {
			return err
		}
	}
	for _, b := range blocks {
		if len(o.Terminals) > 0 && !o.All && !owned[b.ID] {
			continue
		}
		if err := c.stickBlock(ctx, dir, b, o.Progress, s); err != nil {
			return fmt.Errorf("block %.8s: %w", b.SHA256, err)
		}
	}
	for _, path := range o.Policies {
		if err := c.stickPolicy(dir, path); err != nil {
			return fmt.Errorf("policy %s: %w", path, err)
		}
		s.Policies++
	}
	if err := c.stickCatalogue(ctx, dir, texts); err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, wire.StickSnapshot), []byte(texts[1]), 0o644)
}

// stickCatalogue writes the catalogue and the text that names it, before the text that
// makes the stick one; of what lay there before, nothing stays that is another snapshot's.
func (c *Central) stickCatalogue(ctx context.Context, dir string, texts [wire.SnapshotTexts]string) error {
	whole := filepath.Join(dir, wire.StickWhole)
	if texts[2] == texts[1] {
		return removeIfThere(whole)
	}
	switch _, text, err := c.CatalogueText(ctx); {
	case errors.Is(err, ErrNotFound): // it names software alone
	case err != nil:
		return err
	default:
		if err := writeWhole(filepath.Join(dir, wire.StickCatalogue), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return writeWhole(whole, []byte(texts[2]), 0o644)
}

// stickPeppers notes the blocks of a terminal's packs and writes the peppers that they need.
func (c *Central) stickPeppers(ctx context.Context, dir, terminal string, owned map[validate.BlockID]bool, s *Stick) error {
	if _, err := c.Terminal(ctx, terminal); err != nil {
		return err
	}
	ids, err := c.blocksOf(ctx, terminal)
	if err != nil {
		return err
	}
	for _, id := range ids {
		owned[id] = true
		sealed, err := c.SealedPepper(ctx, terminal, id)
		if errors.Is(err, ErrNotFound) {
			continue // a block that needs none
		}
		if err != nil {
			return err
		}
		name := id.String() + "." + terminal + ".pepper"
		if err := writeWhole(filepath.Join(dir, wire.StickPeppers, name), []byte(sealed.Text()), 0o644); err != nil {
			return err
		}
		s.Peppers++
	}
	return nil
}

// blocksOf are the blocks of which a terminal owns packs.
func (c *Central) blocksOf(ctx context.Context, terminal string) (ids []validate.BlockID, err error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT DISTINCT block_id FROM packs WHERE owner = $1", terminal)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		id, err := blockID(raw)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// stickBlock copies a block and its descriptor, unless they lie there whole.
func (c *Central) stickBlock(ctx context.Context, dir string, b Block, progress func(int64), s *Stick) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.Blocks, s.Bytes = s.Blocks+1, s.Bytes+b.Size
	if b.Pieces != "" {
		text, err := os.ReadFile(c.piecesPath(b.Pieces))
		if err == nil {
			err = writeWhole(filepath.Join(dir, wire.StickBlocks, b.Pieces+".pieces"), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	to := filepath.Join(dir, wire.StickBlocks, b.SHA256+".manifest")
	if sum, err := hashOf(to); err == nil && sum == b.SHA256 {
		progress(b.Size)
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.Copied++
	return c.copyOut(b, to, progress)
}

// copyOut copies a block file, and holds what it read against its name.
func (c *Central) copyOut(b Block, to string, progress func(int64)) (err error) {
	in, err := os.Open(c.blockPath(b.SHA256))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeIfThere(out.Name())) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h, counting(progress)), io.LimitReader(in, wire.MaxBlock))
	if err := errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != b.SHA256 || n != b.Size {
		return fmt.Errorf("central's own file has SHA-256 %.8s: publish it again", sum)
	}
	return moveInto(out.Name(), to)
}

// stickPolicy copies a policy that a trusted key has signed.
func (c *Central) stickPolicy(dir, path string) error {
	ring, err := c.keyRing()
	if err != nil {
		return err
	}
	signed, err := readAtMost(path, policy.MaxText)
	if err != nil {
		return err
	}
	text, _, err := ring.Open(signed)
	if err != nil {
		return err
	}
	p, err := policy.Parse(text)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, wire.StickPolicies, p.Version+".policy"), signed, 0o644)
}

func readAtMost(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%w: more than %d bytes", ErrRefused, max)
	}
	return text, err
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

type counting func(int64)

func (c counting) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}
