package uplink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
)

const stallTimeout = 30 * time.Second // without a byte, a download is given up and resumed

// maxBad is how often one piece may come wrong before the source is left for a while.
const maxBad = 2

// source is where blocks come from.
type source struct {
	// open gives the bytes of the block from one place on, and says at which it begins: at
	// from, or at 0. It ends at to or after it.
	open func(ctx context.Context, from, to int64) (body io.ReadCloser, at int64, err error)
	lost error // what it means when it ends early
}

// part is a block on its way. Pieces are written where they belong, so that a bad one in
// the middle costs no other.
type part struct {
	f    *os.File
	want wire.Block
	sums *wire.Pieces // nil where central names none: only the whole can be proven then
	have []bool       // pieces that are whole on the disk
	tail int64        // end of what is there of the first piece that is not, 0 for nothing
	bad  map[int]int  // how often a piece came wrong
}

// fetchBlock makes a block visible: what is missing of it is brought, piece by piece, the
// whole is hashed from the disk, and only then it gets its name.
func (u *Uplink) fetchBlock(ctx context.Context, b wire.Block) error {
	sums, err := u.pieces(ctx, b)
	if err != nil {
		return err
	}
	err = u.opt.Blocks.bring(ctx, b, sums, u.fromCentral(b))
	if err == nil || errors.Is(err, errCut) {
		u.heard()
	}
	return err
}

// errCut means that a source ended early, after something had come.
var errCut = errors.New("cut")

// bring takes a block from a source into the folder.
func (s BlockStore) bring(ctx context.Context, b wire.Block, sums *wire.Pieces, from source) (err error) {
	path := filepath.Join(s.Dir, b.SHA256+cmp.Or(s.suffix, partSuffix))
	if _, err := s.free(); err != nil { // makes the folder
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	defer func() {
		_ = f.Close() // it is synced when its bytes count
		if errors.Is(err, ErrBlock) && sums == nil || errors.Is(err, errWhole) {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	p := &part{f: f, want: b, sums: sums, have: make([]bool, pieceOf(b.Size-1)+1), bad: map[int]int{}}
	if err := p.resume(); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if err := s.reserve(f, b.Size); err != nil {
		return err
	}
	if err := p.fill(ctx, from); err != nil {
		return err
	}
	if err := hashes(f, b); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(s.Dir, b.SHA256+cmp.Or(s.whole, blockSuffix))); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if err := syncDir(s.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// reserve takes the disk's room for the whole file before its bytes come, so that a full
// disk is named at once and not after an hour on a slow line. The file's length stays
// what was written.
func (s BlockStore) reserve(f *os.File, size int64) error {
	free, err := s.free()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if need := max(0, size-allocated(info)) + s.Reserve; free < need {
		return fmt.Errorf("%w: %d bytes are free in %s, the block and the reserve need %d: free some space", ErrNoSpace, free, s.Dir, need)
	}
	allocate := s.allocate
	if allocate == nil {
		allocate = func(f *os.File, size int64) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		}
	}
	switch err := allocate(f, size); {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w for the %d bytes of block %.8s in %s: free some space: %w", ErrNoSpace, size, f.Name(), s.Dir, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS): // a file system that cannot: what is free was looked at
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// allocated is what a file takes of the disk, written or reserved.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return max(info.Size(), st.Blocks*512)
	}
	return info.Size()
}

func pieceOf(at int64) int { return int(at / wire.PieceSize) }

// bounds are the first byte of a piece and the one behind its last.
func (p *part) bounds(n int) (from, to int64) {
	return int64(n) * wire.PieceSize, min(int64(n+1)*wire.PieceSize, p.want.Size)
}

// resume finds what of the file can be relied upon. With a descriptor every piece proves
// itself, and what there is of the next one is gone on with: its hash will tell. Without
// one it is all but the piece begun last, because each is synced before the next begins.
func (p *part) resume() error {
	info, err := p.f.Stat()
	if err != nil {
		return err
	}
	size := min(info.Size(), p.want.Size)
	if p.sums == nil {
		whole := pieceOf(max(0, size-1))
		for n := range whole {
			p.have[n] = true
		}
		return p.f.Truncate(int64(whole) * wire.PieceSize)
	}
	for n := range p.have {
		from, to := p.bounds(n)
		if to > size {
			break
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(p.f, from, to-from)); err != nil {
			return err
		}
		p.have[n] = p.sums.Holds(n, h.Sum(nil))
	}
	if first := slices.Index(p.have, false); first >= 0 && pieceOf(max(0, size-1)) == first {
		if from, to := p.bounds(first); size > from && size < to {
			p.tail = size
		}
	}
	return p.f.Truncate(size)
}

// missing is the first run of bytes that is not there, false when all is.
func (p *part) missing() (from, to int64, more bool) {
	first := slices.Index(p.have, false)
	if first < 0 {
		return 0, 0, false
	}
	last := first
	for last+1 < len(p.have) && !p.have[last+1] {
		last++
	}
	from, _ = p.bounds(first)
	_, to = p.bounds(last)
	return max(from, p.tail), to, true
}

// fill takes what is missing.
func (p *part) fill(ctx context.Context, bring source) error {
	for {
		from, to, more := p.missing()
		if !more {
			return nil
		}
		body, at, err := bring.open(ctx, from, to)
		if err != nil {
			return err
		}
		if at != from {
			p.tail = 0 // it begins at 0, and so do we
		}
		before := p.count()
		at, err = p.take(body, at, to)
		closing := body.Close()
		switch {
		case err == nil:
			if closing != nil {
				return fmt.Errorf("%w: %w", bring.lost, closing)
			}
		case errors.Is(err, ErrStore), errors.Is(err, ErrBlock), errors.Is(err, ErrAnswer):
			return err
		case p.count() > before:
			return &progress{fmt.Errorf("%w: %w at byte %d of %d: %w", bring.lost, errCut, at, p.want.Size, cause(ctx, err))}
		default:
			return fmt.Errorf("%w: %w at byte %d of %d: %w", bring.lost, errCut, at, p.want.Size, cause(ctx, err))
		}
	}
}

// count is how many pieces are there.
func (p *part) count() (n int) {
	for _, there := range p.have {
		if there {
			n++
		}
	}
	return n
}

// take writes a run of bytes that begins at a place, up to another, and returns how far
// it came. Pieces that are there are passed over.
func (p *part) take(r io.Reader, at, to int64) (int64, error) {
	for at < to {
		n := pieceOf(at)
		end := int64(0)
		_, end = p.bounds(n)
		if p.have[n] {
			m, err := io.CopyN(io.Discard, r, end-at)
			if at += m; err != nil {
				return at, early(err)
			}
			continue
		}
		h, err := p.begun(n, at)
		if err != nil {
			return at, fmt.Errorf("%w: %w", ErrStore, err)
		}
		m, err := io.CopyN(io.MultiWriter(disk{io.NewOffsetWriter(p.f, at)}, h), r, end-at)
		at += m
		if err != nil {
			return at, early(err) // the file's length tells the next try how far it came
		}
		p.tail = 0
		if err := p.f.Sync(); err != nil {
			return at, fmt.Errorf("%w: %w", ErrStore, err)
		}
		if err := p.judge(n, h.Sum(nil)); err != nil {
			return at, err
		}
	}
	if n, _ := r.Read(make([]byte, 1)); n > 0 {
		return at, fmt.Errorf("%w: it goes on after its %d bytes", ErrBlock, at)
	}
	return at, nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begun is the hash of what is there of a piece up to a place.
func (p *part) begun(n int, at int64) (hash.Hash, error) {
	h := sha256.New()
	from, _ := p.bounds(n)
	if p.sums == nil || at == from {
		return h, nil
	}
	_, err := io.Copy(h, io.NewSectionReader(p.f, from, at-from))
	return h, err
}

// judge counts a piece as there, or notes that it came wrong: then it is asked for once
// more, and the pieces after it are taken all the same. Two wrong ones in a row, or one
// that is wrong again, and the source is left for a while.
func (p *part) judge(n int, sum []byte) error {
	if p.sums == nil || p.sums.Holds(n, sum) {
		p.have[n] = true
		return nil
	}
	p.bad[n]++
	if p.bad[n] >= maxBad || n > 0 && p.bad[n-1] > 0 && !p.have[n-1] {
		return fmt.Errorf("%w: piece %d of %d has SHA-256 %.4x", ErrBlock, n+1, len(p.have), sum)
	}
	return nil
}

// pieces is the descriptor of a block, nil where central names none or does not have it.
// It is kept beside the part, so that a slow line brings it once.
func (u *Uplink) pieces(ctx context.Context, b wire.Block) (*wire.Pieces, error) {
	if b.Pieces == "" {
		return nil, nil
	}
	name := b.SHA256 + piecesSuffix
	if text, err := u.opt.Blocks.noted(name, wire.MaxPieces); err == nil {
		if p, err := describes(b, text); err == nil {
			return p, nil
		}
	}
	text, err := u.client().read(ctx, requestTimeout, http.MethodGet, wire.PathPieces+b.Pieces, nil)
	var e *wire.Error
	if errors.As(err, &e) && e.Kind == wire.KindNotFound {
		u.opt.Log.Warn("central names a descriptor and does not have it; the block is proven as a whole only", "sha256", b.SHA256)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := describes(b, string(text))
	if err != nil {
		return nil, err
	}
	return p, u.opt.Blocks.note(name, string(text))
}

// describes reads the descriptor that the snapshot names for a block.
func describes(b wire.Block, text string) (*wire.Pieces, error) {
	sum := sha256.Sum256([]byte(text))
	if hex.EncodeToString(sum[:]) != b.Pieces {
		return nil, fmt.Errorf("%w: its descriptor has SHA-256 %.4x", ErrBlock, sum)
	}
	p, err := wire.ParsePieces(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	if p.Block != b.SHA256 || p.Size != b.Size {
		return nil, fmt.Errorf("%w: its descriptor is of block %.8s with %d bytes", ErrBlock, p.Block, p.Size)
	}
	return &p, nil
}

// fromCentral asks central for bytes of a block.
func (u *Uplink) fromCentral(b wire.Block) source { return u.fetchFrom(wire.PathBlocks, b) }

// fetchFrom asks central for bytes of a file below a path.
func (u *Uplink) fetchFrom(path string, b wire.Block) source {
	open := func(ctx context.Context, from, to int64) (io.ReadCloser, int64, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		stall := time.AfterFunc(stallTimeout+u.client().pace.line(0), func() { cancel(fmt.Errorf("no byte within %v", stallTimeout)) })
		end := func() { stall.Stop(); cancel(nil) }
		header := http.Header{}
		if from > 0 || to < b.Size {
			want := fmt.Sprintf("bytes=%d-%d", from, to-1)
			if to == b.Size {
				want = fmt.Sprintf("bytes=%d-", from)
			}
			header.Set("Range", want)
			header.Set("If-Range", `"`+b.SHA256+`"`)
		}
		r, err := u.client().open(ctx, http.MethodGet, path+b.SHA256, nil, header)
		if err != nil {
			end()
			return nil, 0, err
		}
		at, err := startAt(r, from, to, b.Size)
		if err != nil {
			_ = r.Body.Close()
			end()
			return nil, 0, err
		}
		return &watched{body: r.Body, ctx: ctx, alarm: stall, end: end}, at, nil
	}
	return source{open, ErrUnreachable}
}

// startAt holds the answer against the question: exactly the run that was asked for, or
// the whole from its first byte.
func startAt(r *http.Response, from, to, size int64) (int64, error) {
	switch {
	case r.StatusCode == http.StatusPartialContent:
		asked := from > 0 || to < size
		if want, got := fmt.Sprintf("bytes %d-%d/%d", from, to-1, size), r.Header.Get("Content-Range"); !asked || got != want {
			return 0, fmt.Errorf("%w: Content-Range is %.60q, want %q", ErrAnswer, got, want)
		}
		return from, nil
	case r.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%w: status %d for a block", ErrAnswer, r.StatusCode)
	case r.ContentLength >= 0 && r.ContentLength != size:
		return 0, fmt.Errorf("%w: %d bytes, the block has %d (%.40q)", ErrAnswer, r.ContentLength, size, r.Header.Get("Content-Type"))
	}
	return 0, nil
}

// disk marks the errors of writing, so that they are not taken for the source's.
type disk struct{ w io.Writer }

func (d disk) Write(b []byte) (int, error) {
	n, err := d.w.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	return n, err
}

// watched puts the stall alarm off at every byte, and ends with the words of what ended it.
type watched struct {
	body  io.ReadCloser
	ctx   context.Context // of the one request that it is the answer of
	alarm *time.Timer
	end   func()
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	w.alarm.Reset(stallTimeout)
	if err != nil && !errors.Is(err, io.EOF) {
		err = cause(w.ctx, err)
	}
	return n, err
}

func (w *watched) Close() error {
	w.end()
	_ = w.body.Close() // what was read is judged by its hash
	return nil
}

// errWhole is an ErrBlock that no piece explains: nothing of the part can be relied upon.
var errWhole = fmt.Errorf("%w as a whole", ErrBlock)

// hashes reads the whole file back and holds it against its name.
func hashes(f *os.File, b wire.Block) error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, b.Size+1))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if name, err := hex.DecodeString(b.SHA256); err != nil || !bytes.Equal(h.Sum(nil), name) || n != b.Size {
		return fmt.Errorf("%w: %d bytes with SHA-256 %.4x; it is fetched again from the start", errWhole, n, h.Sum(nil))
	}
	return nil
}
