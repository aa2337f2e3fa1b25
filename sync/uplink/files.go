package uplink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

var (
	// ErrOldSnapshot means a signed snapshot older than the one in force: somebody plays
	// an old one again, or central was put back.
	ErrOldSnapshot = errors.New("the snapshot is older than the one in force")
	// ErrBlock means a block file that is not what the signed snapshot lists.
	ErrBlock = errors.New("the block file is not the one that central signed for")
	// ErrStore means that this terminal cannot store what came.
	ErrStore = errors.New("the terminal cannot store it")
)

const (
	blockSuffix  = ".manifest"
	partSuffix   = ".part"
	stallTimeout = 30 * time.Second // without a byte, a download is given up and resumed
)

// BlockStore is the folder of manifests. A block appears in it as SHA256.manifest, whole
// or not at all; what is on its way is SHA256.part. Files are never changed, and those
// that a later snapshot does not list stay.
type BlockStore struct {
	Dir     string
	Reserve int64 // bytes of the disk that downloads leave free
}

// free is the free space of the folder's disk in bytes. The folder is made when it is missing.
func (s BlockStore) free() (int64, error) {
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStore, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.Dir, &fs); err != nil {
		return 0, fmt.Errorf("%w: free space of %s: %w", ErrStore, s.Dir, err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}

// has tells whether a block is visible.
func (s BlockStore) has(b wire.Block) bool {
	info, err := os.Stat(filepath.Join(s.Dir, b.SHA256+blockSuffix))
	return err == nil && info.Size() == b.Size
}

// tidy removes what is left of downloads that no snapshot asks for any more.
func (s BlockStore) tidy(list []wire.Block) error {
	wanted := map[string]bool{}
	for _, b := range list {
		wanted[b.SHA256+partSuffix] = !s.has(b)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), partSuffix) && !wanted[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.Dir, e.Name())))
		}
	}
	return err
}

// fetch reads the signed snapshot and downloads what it lists and is not here. The
// version is in force only after every block is visible.
func (u *Uplink) fetch(ctx context.Context) (rest, error) {
	idle := rest{wake: [2]<-chan struct{}{u.fresh}}
	signed, err := u.client.read(ctx, requestTimeout, http.MethodGet, wire.PathSnapshot, nil)
	var e *wire.Error
	if errors.As(err, &e) && e.Kind == wire.KindNotFound {
		u.heard()
		return idle, nil // nothing is published yet
	}
	if err != nil {
		return rest{}, err
	}
	snapshot, err := u.openSnapshot(ctx, string(signed))
	if err != nil {
		return rest{}, err
	}
	u.heard()
	var failed []error
	for _, b := range snapshot.Blocks {
		if u.opt.Blocks.has(b) {
			continue
		}
		if b.Reader > manifest.Version {
			u.opt.Log.Warn("a block needs a newer program", "block", b.SHA256, "game_code", b.GameCode, "reader", b.Reader)
			continue
		}
		if err := u.fetchBlock(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("block %.8s of game code %s: %w", b.SHA256, b.GameCode, err))
		} else {
			u.opt.Log.Info("block", "sha256", b.SHA256, "game_code", b.GameCode, "bytes", b.Size)
			u.opt.OnBlocks()
			signal(u.packs)
		}
		if ctx.Err() != nil {
			return rest{}, ctx.Err()
		}
	}
	if len(failed) > 0 {
		return rest{}, errors.Join(failed...)
	}
	if err := errors.Join(u.opt.Blocks.tidy(snapshot.Blocks), u.opt.Ledger.SetSnapshot(ctx, snapshot.Version, snapshot.Issued)); err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return idle, nil
}

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
	u.heardSigned(s.Issued)
	inForce, err := u.opt.Ledger.Snapshot(ctx)
	if err != nil {
		return s, err
	}
	if s.Version < inForce {
		return s, fmt.Errorf("%w: version %d, in force is %d", ErrOldSnapshot, s.Version, inForce)
	}
	for n, b := range s.Blocks {
		raw, err := hex.DecodeString(b.SHA256)
		if err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != b.SHA256 {
			return s, fmt.Errorf("%w: block %d of snapshot %d is named %.64q", ErrBlock, n+1, s.Version, b.SHA256)
		}
		if b.Size < 1 || b.Size > wire.MaxBlock {
			return s, fmt.Errorf("%w: block %.8s has %d bytes, at most %d", ErrBlock, b.SHA256, b.Size, wire.MaxBlock)
		}
	}
	return s, nil
}

// fetchBlock makes a block visible: the rest of it is downloaded, the whole is hashed
// from the disk, and only then it gets its name.
func (u *Uplink) fetchBlock(ctx context.Context, b wire.Block) (err error) {
	free, err := u.opt.Blocks.free()
	if err != nil {
		return err
	}
	part := filepath.Join(u.opt.Blocks.Dir, b.SHA256+partSuffix)
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	defer func() {
		_ = f.Close() // it is synced when its bytes count
		if errors.Is(err, ErrBlock) {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	at, err := resumeAt(f, b.Size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if need := b.Size - at + u.opt.Blocks.Reserve; free < need {
		return fmt.Errorf("%w: %d bytes are free in %s, the block and the reserve need %d: free some space", ErrStore, free, u.opt.Blocks.Dir, need)
	}
	if err := u.download(ctx, f, at, b); err != nil {
		return err
	}
	if err := hashes(f, b); err != nil {
		return err
	}
	if err := os.Rename(part, filepath.Join(u.opt.Blocks.Dir, b.SHA256+blockSuffix)); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if err := syncDir(u.opt.Blocks.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// resumeAt cuts a part back to where it can be relied upon and returns that place. Each
// piece is synced before a byte of the next is written, so after a power cut all but the
// last piece begun are on the disk.
func resumeAt(f *os.File, size int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	at := max(0, min(info.Size(), size)-1) / wire.PieceSize * wire.PieceSize
	if err := f.Truncate(at); err != nil {
		return 0, err
	}
	_, err = f.Seek(at, io.SeekStart)
	return at, err
}

// download appends what is missing of a block.
func (u *Uplink) download(ctx context.Context, f *os.File, at int64, b wire.Block) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no byte within %v", stallTimeout)) })
	defer stall.Stop()
	header := http.Header{}
	if at > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", at))
		header.Set("If-Range", `"`+b.SHA256+`"`)
	}
	r, err := u.client.open(ctx, http.MethodGet, wire.PathBlocks+b.SHA256, nil, header)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if at, err = startAt(r, f, at, b.Size); err != nil {
		return err
	}
	got, err := pieces(f, &watched{r.Body, stall}, at, b.Size)
	u.heard()
	switch {
	case errors.Is(err, ErrStore), errors.Is(err, ErrBlock):
		return err
	case err != nil && got/wire.PieceSize > at/wire.PieceSize:
		return &progress{fmt.Errorf("%w: cut at byte %d of %d: %w", ErrUnreachable, got, b.Size, cause(ctx, err))}
	case err != nil:
		return fmt.Errorf("%w: cut at byte %d of %d: %w", ErrUnreachable, got, b.Size, cause(ctx, err))
	}
	return nil
}

// startAt holds the answer against the question: exactly the rest that was asked for, or
// the whole from its first byte.
func startAt(r *http.Response, f *os.File, at, size int64) (int64, error) {
	switch {
	case r.StatusCode == http.StatusPartialContent:
		if want, got := fmt.Sprintf("bytes %d-%d/%d", at, size-1, size), r.Header.Get("Content-Range"); at == 0 || got != want {
			return 0, fmt.Errorf("%w: Content-Range is %.60q, want %q", ErrAnswer, got, want)
		}
		return at, nil
	case r.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%w: status %d for a block", ErrAnswer, r.StatusCode)
	case r.ContentLength >= 0 && r.ContentLength != size:
		return 0, fmt.Errorf("%w: %d bytes, the block has %d (%.40q)", ErrAnswer, r.ContentLength, size, r.Header.Get("Content-Type"))
	}
	if err := f.Truncate(0); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return 0, nil
}

// pieces copies up to the block's size and syncs at each piece's end. It returns how far it came.
func pieces(f *os.File, r io.Reader, at, size int64) (int64, error) {
	out := disk{f}
	for at < size {
		n, err := io.CopyN(out, r, min(wire.PieceSize-at%wire.PieceSize, size-at))
		at += n
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return at, err
		}
		if err := f.Sync(); err != nil {
			return at, fmt.Errorf("%w: %w", ErrStore, err)
		}
	}
	if n, _ := r.Read(make([]byte, 1)); n > 0 {
		return at, fmt.Errorf("%w: it goes on after its %d bytes", ErrBlock, size)
	}
	return at, nil
}

// disk marks the errors of writing, so that they are not taken for the network's.
type disk struct{ f *os.File }

func (d disk) Write(b []byte) (int, error) {
	n, err := d.f.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	return n, err
}

// watched puts the stall alarm off at every byte.
type watched struct {
	r     io.Reader
	alarm *time.Timer
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.alarm.Reset(stallTimeout)
	return n, err
}

// hashes reads the whole file back and holds it against its name.
func hashes(f *os.File, b wire.Block) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != b.SHA256 || n != b.Size {
		return fmt.Errorf("%w: %d bytes with SHA-256 %.8s; it is fetched again from the start", ErrBlock, n, got)
	}
	return nil
}
