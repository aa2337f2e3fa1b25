package manifest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	groups  []Hash
	damage  error
	hurt    atomic.Bool // a look-up has met damage that opening could not see
	mu      sync.Mutex  // one connection, one statement at a time
	db      *sql.DB
	chunkAt *sql.Stmt
	leaves  *sql.Stmt
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
	db := sql.OpenDB(connector{path})
	db.SetMaxOpenConns(1)
	b := &Block{path: path, db: db}
	if err := b.readHeader(ctx, keys); err != nil {
		_ = db.Close()
		return nil, err
	}
	b.damage = b.prepare(ctx)
	return b, b.damage
}

func (b *Block) readHeader(ctx context.Context, keys Keys) error {
	var id int
	if err := b.db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return fmt.Errorf("%w (or it never was a manifest): %w", ErrDamaged, err)
	}
	if id != ApplicationID {
		return fmt.Errorf("%w (or it never was a manifest): application id %#x", ErrDamaged, id)
	}
	var notes, size int
	var signed []byte
	err := b.db.QueryRowContext(ctx, "SELECT count(*), coalesce(max(length(note)), 0), coalesce(substr(max(note), 1, ?), '') FROM header",
		maxHeader).Scan(&notes, &size, &signed)
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
	if err := b.checkSchema(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	leaves := make([]Hash, 0, b.Header.Chunks())
	err := b.eachLeaf(ctx, func(h Hash) error {
		if len(leaves) == b.Header.Chunks() {
			return errors.New("too many leaves")
		}
		leaves = append(leaves, h)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: leaves: %w", ErrDamaged, err)
	}
	b.groups = groupRoots(leaves)
	if root := RootHash(b.groups); len(leaves) != b.Header.Chunks() || root != b.Header.Root {
		return fmt.Errorf("%w: %d leaves do not make the signed root", ErrDamaged, len(leaves))
	}
	if b.chunkAt, err = b.db.PrepareContext(ctx, "SELECT substr(sealed, 1, 4001) FROM chunks WHERE chunk = ?"); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.leaves, err = b.db.PrepareContext(ctx, "SELECT hash FROM leaves WHERE chunk BETWEEN ? AND ? ORDER BY chunk")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func (b *Block) checkSchema(ctx context.Context) error {
	rows, err := b.db.QueryContext(ctx, "SELECT type, name, substr(sql, 1, 200) FROM sqlite_schema LIMIT 10")
	if err != nil {
		return err
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			return err
		}
		if kind != "table" || schema[name] != text {
			return fmt.Errorf("schema: unexpected %s %.20q", kind, name)
		}
		found++
	}
	if found != len(schema) {
		return fmt.Errorf("schema: %d of %d tables", found, len(schema))
	}
	return rows.Err()
}

func (b *Block) eachLeaf(ctx context.Context, use func(Hash) error) error {
	rows, err := b.db.QueryContext(ctx, "SELECT chunk, substr(hash, 1, 33) FROM leaves ORDER BY chunk")
	if err != nil {
		return err
	}
	defer rows.Close()
	for want := int64(0); rows.Next(); want++ {
		var n int64
		var raw sql.RawBytes
		if err := rows.Scan(&n, &raw); err != nil {
			return err
		}
		if n != want || len(raw) != len(Hash{}) {
			return fmt.Errorf("leaf %d: found number %d with %d bytes", want, n, len(raw))
		}
		if err := use(Hash(raw)); err != nil {
			return err
		}
	}
	return rows.Err()
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

// Close releases the file.
func (b *Block) Close() error { return b.db.Close() }

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
	chunk, err := b.chunk(ctx, int(i/ChunkTickets))
	if err != nil && ctx.Err() == nil {
		b.hurt.Store(true)
	}
	if err != nil {
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
func (b *Block) chunk(ctx context.Context, n int) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sealed []byte
	if err := b.chunkAt.QueryRowContext(ctx, n).Scan(&sealed); err != nil {
		return nil, fmt.Errorf("%w: chunk %d: %w", ErrDamaged, n, err)
	}
	if len(sealed) != b.Header.chunkLen(n) {
		return nil, fmt.Errorf("%w: chunk %d has %d bytes, want %d", ErrDamaged, n, len(sealed), b.Header.chunkLen(n))
	}
	group := n / groupLeaves
	first := group * groupLeaves
	leaves, err := b.groupLeaves(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("%w: leaves from %d: %w", ErrDamaged, first, err)
	}
	leaf, root := LeafHash(sealed), RootHash(leaves)
	if n-first >= len(leaves) || subtle.ConstantTimeCompare(leaf[:], leaves[n-first][:]) != 1 || root != b.groups[group] {
		return nil, fmt.Errorf("%w: chunk %d does not match the signed root", ErrDamaged, n)
	}
	return sealed, nil
}

func (b *Block) groupLeaves(ctx context.Context, first int) ([]Hash, error) {
	rows, err := b.leaves.QueryContext(ctx, first, first+groupLeaves-1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	leaves := make([]Hash, 0, groupLeaves)
	for rows.Next() {
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		if len(raw) != len(Hash{}) {
			return nil, fmt.Errorf("a leaf of %d bytes", len(raw))
		}
		leaves = append(leaves, Hash(raw))
	}
	return leaves, rows.Err()
}

// Verify reads the whole block and proves every chunk. Progress is called with the
// number of chunks done.
func (b *Block) Verify(ctx context.Context, progress func(chunks int)) error {
	if b.damage != nil {
		return b.damage
	}
	var count, first, last int
	if err := b.db.QueryRowContext(ctx, "SELECT count(*), coalesce(min(chunk), 0), coalesce(max(chunk), -1) FROM chunks").Scan(&count, &first, &last); err != nil {
		return fmt.Errorf("%w: chunks: %w", ErrDamaged, err)
	}
	if count != b.Header.Chunks() || first != 0 || last != count-1 {
		return fmt.Errorf("%w: %d chunks numbered %d to %d, want %d", ErrDamaged, count, first, last, b.Header.Chunks())
	}
	for n := range count {
		if _, err := b.chunk(ctx, n); err != nil {
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

// maxValue bounds a value or a row that SQLite reads, in bytes: the largest true one is a
// header.
const maxValue = 2 * maxHeader

// connector opens a manifest read-only and immutable, with a small cache, no memory
// map (an I/O error of the card would be a SIGBUS), an untrusted schema, and an
// authorizer that lets nothing but reads of our three tables be prepared.
type connector struct{ path string }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	abs, err := filepath.Abs(c.path)
	if err != nil {
		return nil, err
	}
	dsn := (&url.URL{Scheme: "file", Path: abs, RawQuery: "mode=ro&immutable=1&_query_only=1&_cache_size=-64"}).String()
	d := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		for _, pragma := range []string{"trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY"} {
			if _, err := conn.Exec("PRAGMA "+pragma, nil); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", pragma, err)
			}
		}
		conn.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, maxValue) // a hostile file's blobs stay on the disk
		conn.RegisterAuthorizer(authorize)
		return nil
	}}
	return d.Open(dsn)
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func authorize(action int, arg1, arg2, _ string) int {
	switch action {
	case sqlite3.SQLITE_SELECT:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		switch arg1 {
		case "header", "chunks", "leaves", "sqlite_master", "sqlite_schema":
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_FUNCTION:
		switch arg2 {
		case "count", "max", "min", "length", "substr", "coalesce":
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_PRAGMA:
		if arg1 == "application_id" && arg2 == "" {
			return sqlite3.SQLITE_OK
		}
	}
	return sqlite3.SQLITE_DENY
}
