package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bundlesDir holds the agent's own copies: what RAUC reads was verified here and can be
// changed by nobody else since.
const bundlesDir = "bundles"

const partSuffix = ".part"

func (a *Agent) copied(sha256 string) string {
	return filepath.Join(a.opt.Dir, bundlesDir, sha256+BundleSuffix)
}

// PutOptions say how an update is handed over.
type PutOptions struct {
	Again    bool              // it is tried although it failed on this terminal before
	Reserve  int64             // bytes of the disk that stay free
	Progress func(bytes int64) // nil for nobody
}

// Put copies an update into the inbox of an agent's folder: the manifest last, so that it
// makes it one. Whoever hands an update over may pull the stick out afterwards.
func Put(ctx context.Context, f Found, inbox string, o PutOptions) error {
	if err := os.MkdirAll(inbox, 0o770); err != nil {
		return err
	}
	stem := filepath.Join(inbox, f.SHA256)
	if err := bring(ctx, f.Manifest, f.bundle, stem+BundleSuffix, o.Reserve, o.Progress); err != nil {
		return err
	}
	if o.Again {
		if err := writeWhole(stem+againSuffix, nil); err != nil {
			return err
		}
	}
	return writeWhole(stem+ManifestSuffix, f.note)
}

// bring copies a bundle piece by piece, each by its hash, and gives it its name when the
// whole is right and durable. What an interrupted copy has brought is not copied again.
func bring(ctx context.Context, m Manifest, from, to string, reserve int64, progress func(bytes int64)) error {
	if progress == nil {
		progress = func(int64) {}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+partSuffix, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	defer out.Close() // it is synced when its bytes count
	if err := makeRoom(out, m.Size, reserve); err != nil {
		return err
	}
	whole, buffer := sha256.New(), make([]byte, PieceSize)
	for n, want := range m.Pieces {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := int64(n) * PieceSize
		piece := buffer[:min(PieceSize, m.Size-at)]
		if got, err := out.ReadAt(piece, at); err != nil || got != len(piece) || sha256.Sum256(piece) != want {
			if _, err := in.ReadAt(piece, at); err != nil {
				return fmt.Errorf("%s at byte %d: %w", filepath.Base(from), at, err)
			}
			if sha256.Sum256(piece) != want {
				return fmt.Errorf("%w: piece %d of %d is another", ErrBundle, n+1, len(m.Pieces))
			}
			if _, err := out.WriteAt(piece, at); err != nil {
				return err
			}
		}
		whole.Write(piece)
		progress(int64(len(piece)))
	}
	if hex.EncodeToString(whole.Sum(nil)) != m.SHA256 {
		return fmt.Errorf("%w: its SHA-256 is another", ErrBundle)
	}
	if err := errors.Join(out.Truncate(m.Size), out.Sync()); err != nil {
		return err
	}
	return renameWhole(to+partSuffix, to)
}

// makeRoom takes the disk's room for the whole file before its bytes come.
func makeRoom(f *os.File, size, reserve int64) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	if need := max(0, size-st.Blocks*512) + reserve; free < need {
		return fmt.Errorf("%w: %d bytes are free, the bundle and the reserve need %d", ErrNoSpace, free, need)
	}
	switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); {
	case err == nil, errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS): // a file system that cannot: what is free was looked at
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	default:
		return err
	}
}

// tidy removes the copies of all bundles but one, "" for none.
func (a *Agent) tidy(keep string) error {
	dir := filepath.Join(a.opt.Dir, bundlesDir)
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if name := strings.TrimSuffix(e.Name(), partSuffix); keep == "" || name != keep+BundleSuffix {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Verify reads a bundle whole and holds it against its manifest. The errors include ErrBundle.
func (f Found) Verify(ctx context.Context) error {
	file, err := os.Open(f.bundle)
	if err != nil {
		return err
	}
	defer file.Close()
	m, err := Describe(file, f.Manifest)
	if err == nil && m.Text() != f.Text() {
		err = fmt.Errorf("%w: %s", ErrBundle, filepath.Base(f.bundle))
	}
	return errors.Join(err, ctx.Err())
}
