package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
)

// Block is a published block. A block published again counts by its highest serial.
type Block struct {
	ID        validate.BlockID `json:"id"`
	Serial    int              `json:"serial"`
	SHA256    string           `json:"sha256"`
	Size      int64            `json:"size"` // bytes
	Game      string           `json:"game"`
	Name      string           `json:"name"` // the game's name for people
	Emission  string           `json:"emission"`
	Number    int              `json:"number"`
	GameCode  string           `json:"game_code"` // as printed, padded
	Tickets   int64            `json:"tickets"`
	FirstPack uint32           `json:"first_pack"`
	LastPack  uint32           `json:"last_pack"`
	PackSize  int              `json:"pack_size"`
	Price     money.Amount     `json:"price_minor"`
	Currency  string           `json:"currency"`
	Scaled    bool             `json:"scaled"` // a demonstration block
	MinReader int              `json:"min_reader"`
	Published time.Time        `json:"published"`
	Pieces    string           `json:"pieces"` // SHA-256 of the descriptor of its pieces, "" where its file cannot be read
}

const blockColumns = `block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size,
	price_minor, currency, scaled, min_reader, published, pieces`

// currentBlocks are the blocks by their highest serial.
const currentBlocks = "SELECT " + blockColumns + " FROM blocks AS b WHERE serial = (SELECT max(serial) FROM blocks AS o WHERE o.block_id = b.block_id)"

func scanBlock(row scanner) (Block, error) {
	var b Block
	var id []byte
	var published string
	err := row.Scan(&id, &b.Serial, &b.SHA256, &b.Size, &b.Game, &b.Name, &b.Emission, &b.Number, &b.GameCode, &b.Tickets, &b.FirstPack, &b.LastPack, &b.PackSize,
		&b.Price, &b.Currency, &b.Scaled, &b.MinReader, &published, &b.Pieces)
	if err != nil {
		return b, err
	}
	if b.ID, err = blockID(id); err != nil {
		return b, err
	}
	b.Published, err = wire.ParseTime(published)
	return b, err
}

func blockID(raw []byte) (id validate.BlockID, err error) {
	if len(raw) != len(id) {
		return id, fmt.Errorf("block id of %d bytes", len(raw))
	}
	return validate.BlockID(raw), nil
}

// querier is a transaction or the readers.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func listBlocks(ctx context.Context, q querier) ([]Block, error) {
	rows, err := q.QueryContext(ctx, currentBlocks+" ORDER BY game_code, first_pack")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Block{}
	for rows.Next() {
		b, err := scanBlock(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}

// Blocks lists the published blocks by game code and first pack.
func (c *Central) Blocks(ctx context.Context) ([]Block, error) {
	return listBlocks(ctx, c.store.reader())
}

// BlockTiers is the prize table of a published block, as its signed header has it.
func (c *Central) BlockTiers(ctx context.Context, id validate.BlockID) ([]manifest.Tier, error) {
	b, err := c.block(ctx, id)
	if err != nil {
		return nil, err
	}
	return b.Header.Tiers, nil
}

// Publish copies a manifest into the folder, verifies the copy whole against the seal
// keys, and lists it in a new snapshot. Publishing a file again changes nothing. A
// manifest that needs a pepper is refused without it, because central could prove no
// claim of it; the pepper of an issue before is known already.
func (c *Central) Publish(ctx context.Context, path string) (Block, error) {
	return c.PublishWithPepper(ctx, path, manifest.Pepper{})
}

// PublishWithPepper publishes a block whose secrets are short, with its pepper. Central
// keeps it, and gives it, sealed, to the terminals that own packs of the block.
func (c *Central) PublishWithPepper(ctx context.Context, path string, pepper manifest.Pepper) (Block, error) {
	b, err := c.publish(ctx, path, pepper)
	if err != nil {
		return Block{}, fmt.Errorf("publish %s: %w", filepath.Base(path), err)
	}
	return b, nil
}

func (c *Central) publish(ctx context.Context, path string, pepper manifest.Pepper) (_ Block, err error) {
	temp, sum, size, err := c.copyBlock(path)
	if err != nil {
		return Block{}, err
	}
	defer func() { err = errors.Join(err, removeIfThere(temp)) }()
	h, err := c.verifyBlock(ctx, temp, &pepper)
	if err != nil {
		return Block{}, err
	}
	packs := (h.Tickets + int64(h.PackSize) - 1) / int64(h.PackSize)
	b := Block{ID: h.Block, Serial: h.Serial, SHA256: sum, Size: size, Game: h.Game, Name: h.Name, Emission: h.Emission, Number: h.Number, GameCode: h.GameCode,
		Tickets: h.Tickets, FirstPack: h.FirstPack, LastPack: h.FirstPack + uint32(packs-1), PackSize: h.PackSize, Price: h.Price, Currency: h.Currency,
		Scaled: h.Scaled, MinReader: h.MinReader, Published: c.opt.Now().UTC().Truncate(time.Millisecond)}
	published, err := c.Blocks(ctx)
	if err == nil {
		_, err = fits(b, published) // asked again below; here it keeps a refused file out of the folder
	}
	if err != nil {
		return Block{}, err
	}
	// The files are in place before the row that names them: a cut leaves what nobody asks for.
	if h.NeedsPepper() {
		if err := c.keepPepper(h.Block, pepper); err != nil {
			return Block{}, err
		}
	}
	if b.Pieces, err = c.describe(temp); err != nil {
		return Block{}, err
	}
	if err := moveInto(temp, c.blockPath(sum)); err != nil {
		return Block{}, err
	}
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		blocks, err := listBlocks(ctx, tx)
		if err != nil {
			return err
		}
		if old, err := fits(b, blocks); err != nil || old != nil {
			if old != nil {
				b = *old
			}
			return err
		}
		if err := insertBlock(ctx, tx, b); err != nil {
			return err
		}
		if err := keepTiers(ctx, tx, b.ID, h.Tiers); err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err == nil {
		c.opt.Log.Info("block published", "block", b.ID, "game", b.Game, "sha256", b.SHA256)
	}
	return b, err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (c *Central) blockPath(sum string) string {
	return filepath.Join(c.opt.Dir, "blocks", sum+".manifest")
}

// copyBlock copies into the blocks folder, hashing what it writes.
func (c *Central) copyBlock(path string) (temp, sum string, size int64, err error) {
	in, err := os.Open(path)
	if err != nil {
		return "", "", 0, err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil {
		return "", "", 0, err
	} else if !info.Mode().IsRegular() || info.Size() > wire.MaxBlock {
		return "", "", 0, fmt.Errorf("%w: want a file of at most %d bytes", ErrRefused, wire.MaxBlock)
	}
	out, err := os.CreateTemp(filepath.Join(c.opt.Dir, "blocks"), ".new-*")
	if err != nil {
		return "", "", 0, err
	}
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, wire.MaxBlock+1))
	err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close())
	if err == nil && size > wire.MaxBlock {
		err = fmt.Errorf("%w: it grew beyond %d bytes", ErrRefused, wire.MaxBlock)
	}
	if err != nil {
		return "", "", 0, errors.Join(err, removeIfThere(out.Name()))
	}
	return out.Name(), hex.EncodeToString(hash.Sum(nil)), size, nil
}

func (c *Central) keyRing() (manifest.Keys, error) {
	public, err := c.SealKeys()
	if err != nil {
		return manifest.Keys{}, err
	}
	if len(public) == 0 {
		return manifest.Keys{}, fmt.Errorf("%w: no key may sign manifests yet: publish with --key PUB --trust", ErrRefused)
	}
	return manifest.NewKeys(1, public...)
}

// verifyBlock proves a file whole. Where the block needs a pepper and none is given, it
// is the one that is kept.
func (c *Central) verifyBlock(ctx context.Context, path string, pepper *manifest.Pepper) (manifest.Header, error) {
	ring, err := c.keyRing()
	if err != nil {
		return manifest.Header{}, err
	}
	m, err := manifest.Open(ctx, path, ring)
	if m != nil {
		defer m.Close()
	}
	if err != nil {
		return manifest.Header{}, err
	}
	if m.Header.NeedsPepper() && *pepper == (manifest.Pepper{}) {
		if *pepper, err = c.pepper(m.Header.Block); errors.Is(err, ErrNotFound) {
			return manifest.Header{}, fmt.Errorf("%w: layout %s needs the block's pepper, or central could prove no claim of it: give its file with --pepper", ErrRefused, m.Header.Layout.Name)
		} else if err != nil {
			return manifest.Header{}, err
		}
	}
	if *pepper != (manifest.Pepper{}) {
		if err := m.SetPepper(*pepper); err != nil {
			return manifest.Header{}, err
		}
	}
	return m.Header, m.Verify(ctx, func(int) {})
}

// fits refuses a block that contradicts a published one. A block that is published
// already, with the very same file, is returned.
func fits(b Block, published []Block) (same *Block, err error) {
	for _, old := range published {
		switch {
		case old.ID == b.ID && old.SHA256 == b.SHA256:
			return &old, nil
		case old.ID == b.ID && old.Serial >= b.Serial:
			return nil, fmt.Errorf("%w: block %v is published as serial %d, this file is serial %d: seal it with a higher one", ErrRefused, b.ID, old.Serial, b.Serial)
		case old.ID == b.ID && (old.GameCode != b.GameCode || old.FirstPack != b.FirstPack || old.LastPack != b.LastPack || old.PackSize != b.PackSize):
			return nil, fmt.Errorf("%w: block %v is published with other packs than this file has", ErrRefused, b.ID)
		case old.ID != b.ID && old.GameCode == b.GameCode && old.FirstPack <= b.LastPack && b.FirstPack <= old.LastPack:
			return nil, fmt.Errorf("%w: block %v has packs %d to %d of game code %s already, this one packs %d to %d", ErrRefused,
				old.ID, old.FirstPack, old.LastPack, old.GameCode, b.FirstPack, b.LastPack)
		}
	}
	return nil, nil
}

func insertBlock(ctx context.Context, tx *sql.Tx, b Block) error {
	scaled := 0
	if b.Scaled {
		scaled = 1
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO blocks("+blockColumns+") VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)", b.ID[:], b.Serial, b.SHA256, b.Size, b.Game, b.Name,
		b.Emission, b.Number, b.GameCode, b.Tickets, b.FirstPack, b.LastPack, b.PackSize, int64(b.Price), b.Currency, scaled, b.MinReader, wire.FormatTime(b.Published), b.Pieces)
	return err
}

// block gives an open manifest of a published block, by its highest serial.
func (c *Central) block(ctx context.Context, id validate.BlockID) (*manifest.Block, error) {
	var serial int64
	var sum string
	err := c.store.reader().QueryRowContext(ctx, "SELECT serial, sha256 FROM blocks WHERE block_id = $1 ORDER BY serial DESC LIMIT 1", id[:]).Scan(&serial, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("block %v: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	c.blocksMu.Lock()
	defer c.blocksMu.Unlock()
	held := c.blocks[id]
	if held != nil && held.serial == serial {
		return held.Block, nil
	}
	ring, err := c.keyRing()
	if err != nil {
		return nil, err
	}
	m, err := manifest.Open(ctx, c.blockPath(sum), ring)
	if err == nil && m.Header.NeedsPepper() {
		var pepper manifest.Pepper
		if pepper, err = c.pepper(id); err == nil {
			err = m.SetPepper(pepper)
		}
	}
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	if held != nil {
		// An upload may still look into the old file; its answer is the same and Close,
		// which waits for no query, would fail it. It stays open until the end.
		c.replaced = append(c.replaced, held.Block)
	}
	c.blocks[id] = &openBlock{serial, m}
	return m, nil
}
