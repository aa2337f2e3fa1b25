package manifest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/mattn/go-sqlite3"

	"grattoir/validate/ticket"
)

var (
	// ErrDamaged means that the file does not hold what its signed header says. The
	// ticket may well be a winner: nothing is known until the file is fetched again.
	ErrDamaged = errors.New("manifest is damaged: fetch the file again")
	// ErrNotInBlock means that the block has no ticket of this number or layout.
	ErrNotInBlock = errors.New("no such ticket in this block")
	// ErrNotAuthentic means that the secret opens no tier of this ticket.
	ErrNotAuthentic = errors.New("the secret does not belong to this ticket")
	// ErrPartial means a code whose hidden digits were not typed yet.
	ErrPartial = errors.New("its hidden digits have still to be typed")
	// ErrNeedsPepper means that the block's secrets are short and its pepper was not given.
	ErrNeedsPepper = errors.New("this block needs its pepper")
	// ErrWrongPepper means a pepper of another block, or a damaged one.
	ErrWrongPepper = errors.New("this is not the block's pepper")
	// ErrReaderTooOld means that the file was made for a newer program.
	ErrReaderTooOld = errors.New("manifest needs a newer program")
)

// ApplicationID marks a manifest in SQLite's file header ("GRTM").
const ApplicationID = 0x4752544d

// schema is the whole of it; a file with anything else is refused.
var schema = map[string]string{
	"header": "CREATE TABLE header(note TEXT NOT NULL)",
	"chunks": "CREATE TABLE chunks(chunk INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
	"leaves": "CREATE TABLE leaves(chunk INTEGER PRIMARY KEY, hash BLOB NOT NULL)",
}

// Schema lists the statements that make an empty manifest, for the sealer.
func Schema() []string { return []string{schema["header"], schema["chunks"], schema["leaves"]} }

// Block is an open manifest. It is safe for concurrent use.
type Block struct {
	Header Header

	path    string
	pepper  atomic.Pointer[Pepper] // nil until it is known
	proofs  []proof                // one a chunk, proven by the signed root
	damage  error
	hurt    atomic.Bool // a look-up has met damage that opening could not see
	mu      sync.Mutex  // one connection, one statement at a time
	file    *file
	closed  bool
	chunkAt *sqlite3.SQLiteStmt
}

// Open opens the manifest at path, checks its header's signatures against the ring
// and its leaves against the signed root. Damage below a good header comes back as
// ErrDamaged together with the block, which then answers ErrDamaged for its tickets;
// every other error comes without a block.
func Open(ctx context.Context, path string, keys Keys) (*Block, error) {
	b, err := open(ctx, path, keys)
	if err != nil && b == nil {
		return nil, fmt.Errorf("manifest %s: %w", filepath.Base(path), err)
	} else if err != nil {
		return b, fmt.Errorf("manifest %s: block %v: %w", filepath.Base(path), b.Header.Block, err)
	}
	return b, nil
}

func open(ctx context.Context, path string, keys Keys) (*Block, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w (or it never was a manifest): %w", ErrDamaged, err)
	}
	b := &Block{path: path, file: f}
	if err := b.readHeader(keys); err != nil {
		return nil, errors.Join(err, f.close())
	}
	b.damage = b.prepare(ctx)
	return b, b.damage
}

func (b *Block) readHeader(keys Keys) error {
	var id, notes, size int64
	if err := b.file.row("PRAGMA application_id", nil, &id); err != nil {
		return fmt.Errorf("%w (or it never was a manifest): %w", ErrDamaged, err)
	}
	if id != ApplicationID {
		return fmt.Errorf("%w (or it never was a manifest): application id %#x", ErrDamaged, id)
	}
	var signed []byte
	err := b.file.row("SELECT count(*), coalesce(max(length(note)), 0), coalesce(substr(max(note), 1, ?), '') FROM header",
		[]driver.Value{int64(maxHeader)}, &notes, &size, &signed)
	if err != nil {
		return fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	if notes != 1 || size > maxHeader {
		return fmt.Errorf("%w: %d headers, %d bytes", ErrDamaged, notes, size)
	}
	b.Header, err = keys.verify(signed)
	if err != nil {
		return err
	}
	if b.Header.MinReader > Version {
		return fmt.Errorf("%w: version %d, this one reads %d", ErrReaderTooOld, b.Header.MinReader, Version)
	}
	return nil
}

// prepare checks the schema and the leaves; what is wrong from here on is damage.
func (b *Block) prepare(ctx context.Context) error {
	if err := b.checkSchema(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var tree Tree
	b.proofs = make([]proof, 0, b.Header.Chunks())
	err := b.eachLeaf(ctx, func(h Hash) error {
		if len(b.proofs) == b.Header.Chunks() {
			return errors.New("too many leaves")
		}
		tree.Add(h)
		b.proofs = append(b.proofs, proof(h[:proofBytes]))
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: leaves: %w", ErrDamaged, err)
	}
	if len(b.proofs) != b.Header.Chunks() || tree.Root() != b.Header.Root {
		return fmt.Errorf("%w: %d leaves do not make the signed root", ErrDamaged, len(b.proofs))
	}
	if b.chunkAt, err = b.file.prepare("SELECT substr(sealed, 1, 4001) FROM chunks WHERE chunk = ?"); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func (b *Block) checkSchema() error {
	found := 0
	err := b.file.each("SELECT type, name, substr(sql, 1, 200) FROM sqlite_schema LIMIT 10", nil, func(row []driver.Value) error {
		var kind, name, text string
		if err := scan(row, &kind, &name, &text); err != nil {
			return err
		}
		if kind != "table" || schema[name] != text {
			return fmt.Errorf("schema: unexpected %s %.20q", kind, name)
		}
		found++
		return nil
	})
	if err == nil && found != len(schema) {
		err = fmt.Errorf("schema: %d of %d tables", found, len(schema))
	}
	return err
}

func (b *Block) eachLeaf(ctx context.Context, use func(Hash) error) error {
	want := int64(0)
	return b.file.each("SELECT chunk, substr(hash, 1, 33) FROM leaves ORDER BY chunk", nil, func(row []driver.Value) error {
		var n int64
		var leaf Hash
		if err := scan(row, &n, &leaf); err != nil {
			return fmt.Errorf("leaf %d: %w", want, err)
		}
		if n != want {
			return fmt.Errorf("leaf %d: found number %d", want, n)
		}
		want++
		return errors.Join(ctx.Err(), use(leaf))
	})
}

// SetPepper gives the block its pepper, whenever it comes. ErrWrongPepper means that it
// is not the one the signed header commits to.
func (b *Block) SetPepper(p Pepper) error {
	if commitment := p.Commitment(b.Header.Block); !b.Header.NeedsPepper() || subtle.ConstantTimeCompare(commitment[:], b.Header.Pepper[:]) != 1 {
		return fmt.Errorf("block %v: %w", b.Header.Block, ErrWrongPepper)
	}
	b.pepper.Store(&p)
	return nil
}

// LacksPepper tells whether nothing can be looked up until SetPepper is called.
func (b *Block) LacksPepper() bool { return b.Header.NeedsPepper() && b.pepper.Load() == nil }

// ErrClosed means that the block was closed: its file is no longer asked for.
var ErrClosed = errors.New("the block is closed")

// Close releases the file, after the look-up under way. Later ones answer ErrClosed.
func (b *Block) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	var statement error
	if b.chunkAt != nil {
		statement = b.chunkAt.Close()
	}
	return errors.Join(statement, b.file.close())
}

// Path is where the file lies.
func (b *Block) Path() string { return b.path }

// Damage is nil, or why the block answers nothing, or not for all its tickets.
func (b *Block) Damage() error {
	if b.damage == nil && b.hurt.Load() {
		return fmt.Errorf("%w: a chunk that was asked for does not match the signed root", ErrDamaged)
	}
	return b.damage
}

// Open proves what the code of one ticket is worth: its tier, 0 for an authentic
// loser. The errors are ErrNotInBlock, ErrNotAuthentic, ErrNeedsPepper, ErrPartial and ErrDamaged;
// damage is never taken for a wrong secret, because the chunk is proven first.
func (b *Block) Open(ctx context.Context, c ticket.Code) (tier int, err error) {
	i, ok := b.Header.Index(c.Pack, c.Number)
	if !ok || c.Game != b.Header.GameCode || !c.Layout.Equal(b.Header.Layout) {
		return 0, fmt.Errorf("ticket %v: %w", c, ErrNotInBlock)
	}
	if b.damage != nil {
		return 0, b.damage
	}
	if b.LacksPepper() {
		return 0, fmt.Errorf("ticket %v: %w", c, ErrNeedsPepper)
	}
	if c.Partial() {
		return 0, fmt.Errorf("ticket %v: %w", c, ErrPartial)
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("ticket %v: %w", c, err)
	}
	chunk, err := b.chunk(int(i / ChunkTickets))
	if err != nil {
		if !errors.Is(err, ErrClosed) {
			b.hurt.Store(true)
		}
		return 0, fmt.Errorf("ticket %v: %w", c, err)
	}
	at := int(i%ChunkTickets) * TagBytes
	var pepper Pepper
	if p := b.pepper.Load(); p != nil {
		pepper = *p
	}
	tier, ok = NewTagger(pepper, c.Secret(), b.Header.Block, i).open(chunk[at:at+TagBytes], len(b.Header.Tiers))
	if !ok {
		return 0, fmt.Errorf("ticket %v: %w", c, ErrNotAuthentic)
	}
	return tier, nil
}

// chunk reads chunk n and proves it against the signed root.
func (b *Block) chunk(n int) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	var sealed []byte
	if err := one(b.chunkAt, []driver.Value{int64(n)}, &sealed); err != nil {
		return nil, fmt.Errorf("%w: chunk %d: %w", ErrDamaged, n, err)
	}
	if len(sealed) != b.Header.chunkLen(n) {
		return nil, fmt.Errorf("%w: chunk %d has %d bytes, want %d", ErrDamaged, n, len(sealed), b.Header.chunkLen(n))
	}
	if leaf := LeafHash(sealed); subtle.ConstantTimeCompare(leaf[:proofBytes], b.proofs[n][:]) != 1 {
		return nil, fmt.Errorf("%w: chunk %d does not match the signed root", ErrDamaged, n)
	}
	return sealed, nil
}

// Verify reads the whole block and proves every chunk. Progress is called with the
// number of chunks done.
func (b *Block) Verify(ctx context.Context, progress func(chunks int)) error {
	if b.damage != nil {
		return b.damage
	}
	var count, first, last int64
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	err := b.file.row("SELECT count(*), coalesce(min(chunk), 0), coalesce(max(chunk), -1) FROM chunks", nil, &count, &first, &last)
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: chunks: %w", ErrDamaged, err)
	}
	if count != int64(b.Header.Chunks()) || first != 0 || last != count-1 {
		return fmt.Errorf("%w: %d chunks numbered %d to %d, want %d", ErrDamaged, count, first, last, b.Header.Chunks())
	}
	for n := range b.Header.Chunks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := b.chunk(n); err != nil {
			return err
		}
		progress(n + 1)
	}
	return nil
}

// FileSHA256 is the hash of the whole file, its name at central.
func FileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("manifest %s: %w", filepath.Base(path), err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
