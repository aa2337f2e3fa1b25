package uplink

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
)

const (
	blockSuffix   = ".manifest"
	partSuffix    = ".part"
	piecesSuffix  = ".pieces"  // the descriptor of a block on its way
	damagedSuffix = ".damaged" // after blockSuffix: set aside by the daemon, to be fetched again

	// What central said last lies beside the blocks, so that it holds with no network.
	snapshotFile = "snapshot.note" // signed
	regionFile   = "region"
)

// BlockStore is the folder of manifests. A block of central's appears in it as
// SHA256.manifest, whole or not at all; what is on its way is SHA256.part. Files are
// never changed. A file of another name was brought by hand: it counts against the
// quota, and is never touched.
type BlockStore struct {
	Dir     string
	Quota   int64 // bytes that manifests may take, more than 0
	Reserve int64 // bytes of the disk that downloads leave free

	suffix   string                             // of what is on its way, "" for partSuffix
	whole    string                             // end of a whole file's name, "" for blockSuffix
	allocate func(f *os.File, size int64) error // takes a file's room on the disk, nil for the system's
}

// Held is what the daemon knows of an open manifest file.
type Held struct {
	GameCode  string // as printed, padded
	FirstPack uint32
	LastPack  uint32
	Sound     bool // its tickets are answered
}

// contents is what lies in the folder. Sizes are in bytes.
type contents struct {
	have   []held // blocks of central's, whole
	byHand int64
	parts  int64 // of what is on its way or set aside
	taken  int64 // all of these
	free   int64 // on the disk
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

// survey looks what lies in the folder. A file with the name of a listed block and
// another size is none: the block's own file will take its place.
func (s BlockStore) survey(listed []wire.Block, what func(sha256 string) (Held, bool)) (c contents, err error) {
	if c.free, err = s.free(); err != nil {
		return c, err
	}
	sizes := map[string]int64{}
	for _, b := range listed {
		sizes[b.SHA256] = b.Size
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrStore, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // gone since
		} else if err != nil {
			return c, fmt.Errorf("%w: %w", ErrStore, err)
		}
		name, block := strings.CutSuffix(e.Name(), blockSuffix)
		size := info.Size()
		switch {
		case !block && strings.HasSuffix(name, partSuffix):
			size = allocated(info) // its room was taken before its bytes came
			c.parts += size
		case !block && strings.HasSuffix(name, damagedSuffix):
			c.parts += size
		case !block:
			continue
		case !IsBlockName(name):
			c.byHand += size
		case sizes[name] != 0 && sizes[name] != size:
			c.parts += size
		default:
			h := held{name: name, size: size}
			h.Held, _ = what(name)
			c.have = append(c.have, h)
		}
		c.taken += size
	}
	return c, nil
}

// situation is what the choice of blocks depends on, but for the day.
func (s BlockStore) situation(c contents, listed []wire.Block, packs []wire.PackItem, region string) situation {
	now := situation{listed: listed, have: c.have, packs: packs, region: region, why: WhyQuota}
	room := s.Quota
	if disk := c.taken + max(0, c.free-s.Reserve); disk < room {
		room, now.why = disk, WhyDisk
	}
	now.room = room - c.byHand
	return now
}

// IsBlockName tells a file's name of central's, without its ending, from one that a person gave.
func IsBlockName(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == 32 && hex.EncodeToString(raw) == name
}

// tidy removes what is left of downloads, and damaged files set aside, of blocks that are
// not to be fetched.
func (s BlockStore) tidy(fetch []wire.Block) error {
	wanted := map[string]bool{}
	for _, b := range fetch {
		wanted[b.SHA256+partSuffix], wanted[b.SHA256+stickPart] = true, true
		wanted[b.SHA256+piecesSuffix], wanted[b.SHA256+blockSuffix+damagedSuffix] = true, true
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	for _, e := range entries {
		name, aside := strings.CutSuffix(e.Name(), blockSuffix+damagedSuffix)
		if !aside {
			aside = strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, piecesSuffix) && IsBlockName(strings.TrimSuffix(name, piecesSuffix))
		} else {
			aside = IsBlockName(name)
		}
		if aside && !wanted[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.Dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// remove unlinks blocks and syncs the folder. Whoever has one open reads on in it.
func (s BlockStore) remove(names []string) error {
	var errs []error
	for _, name := range names {
		if err := os.Remove(filepath.Join(s.Dir, name+blockSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, syncDir(s.Dir))...); err != nil {
		return fmt.Errorf("%w: dropping blocks: %w", ErrStore, err)
	}
	return nil
}

// note stores a small text in the folder, whole or not at all.
func (s BlockStore) note(name, text string) error {
	if err := s.writeNote(name, text); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrStore, name, err)
	}
	return nil
}

func (s BlockStore) writeNote(name, text string) error {
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return err
	}
	path := filepath.Join(s.Dir, name)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(s.Dir)
}

// noted reads such a text of at most max bytes, "" where there is none.
func (s BlockStore) noted(name string, max int64) (string, error) {
	f, err := os.Open(filepath.Join(s.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%s has more than %d bytes", name, max)
	}
	return string(text), err
}
