package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// library is the folder of manifests, opened.
type library struct {
	dir    string
	linked bool // central has every file again
	keys   manifest.Keys
	open   func(wire.SealedPepper) (manifest.Pepper, error) // with this terminal's key
	shelf  *manifest.Shelf
	now    func() time.Time // newest trusted time, zero for none; nil for a terminal that has none
	log    *slog.Logger

	mu     sync.Mutex
	seen   map[string]*file // by name
	newest time.Time
}

func newLibrary(c configs.Terminal, t trust, log *slog.Logger) (*library, error) {
	keys, err := manifest.NewKeys(t.signatures, t.sealKeys...)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("keys: %w", err))
	}
	games, err := configs.Games()
	if err != nil {
		return nil, err
	}
	shelf := manifest.NewShelf()
	for _, g := range games {
		for _, e := range g.Emissions {
			if e.GameCode != nil {
				shelf.Know(*e.GameCode)
			}
		}
	}
	return &library{dir: c.Manifests(), linked: !c.StandAlone, keys: keys, open: t.identity.OpenPepper, shelf: shelf, log: log, seen: map[string]*file{}}, nil
}

// rescan opens the manifests that are new. A file that cannot be used is named and
// leaves the others working.
func (l *library) rescan(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	defer func() {
		if len(l.shelf.Blocks()) == 0 {
			l.log.Warn("no block lies here: every ticket is an unknown game; bring one with terminalctl manifest import", "folder", l.dir)
		}
	}()
	there := map[string]bool{}
	var unread []string
	for _, entry := range list {
		name := entry.Name()
		info, err := os.Stat(filepath.Join(l.dir, name))
		if err != nil || !strings.HasSuffix(name, ".manifest") {
			continue
		}
		there[name] = true
		f := l.seen[name]
		if f == nil || !os.SameFile(f.info, info) || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime()) {
			f = l.add(ctx, name, info)
			l.seen[name] = f
		}
		if l.linked && errors.Is(f.err, manifest.ErrDamaged) {
			// Out of the way, the link fetches it again; a whole copy takes the place of the damaged block.
			aside := filepath.Join(l.dir, name+".damaged")
			if err := os.Rename(filepath.Join(l.dir, name), aside); err == nil {
				l.log.Warn("damaged manifest set aside, to be fetched again", "file", name)
			}
		}
		if f.block == nil && (errors.Is(f.err, manifest.ErrDamaged) || errors.Is(f.err, manifest.ErrSignature)) {
			unread = append(unread, name)
		}
	}
	for name := range l.seen {
		if !there[name] {
			delete(l.seen, name) // its block stays open until the next start
		}
	}
	l.shelf.Unreadable(unread...)
	l.readPeppers(list)
	return nil
}

const pepperSuffix = ".pepper"

// lackPeppers lists the blocks that answer nothing until their pepper comes.
func (l *library) lackPeppers() []validate.BlockID {
	var out []validate.BlockID
	for _, b := range l.shelf.Blocks() {
		if b.LacksPepper() {
			out = append(out, b.Header.Block)
		}
	}
	return out
}

// keepPepper stores a pepper as it came, sealed to this terminal, and opens its block with it.
func (l *library) keepPepper(s wire.SealedPepper) error {
	if err := uplink.WriteWhole(filepath.Join(l.dir, s.Block.String()+pepperSuffix), []byte(s.Text())); err != nil {
		return err
	}
	if err := l.rescan(context.Background()); err != nil {
		return err
	}
	if slices.Contains(l.lackPeppers(), s.Block) {
		return fmt.Errorf("block %v: %w", s.Block, manifest.ErrWrongPepper)
	}
	return nil
}

// readPeppers gives the blocks that lack it their pepper, from the files beside them:
// sealed to this terminal, or in clear on one that stands alone. A pepper proves itself
// against the signed header, so a file's name does not matter.
func (l *library) readPeppers(list []fs.DirEntry) {
	if len(l.lackPeppers()) == 0 {
		return
	}
	for _, entry := range list {
		if !strings.HasSuffix(entry.Name(), pepperSuffix) {
			continue
		}
		p, err := l.readPepper(filepath.Join(l.dir, entry.Name()))
		if err != nil {
			l.log.Error("pepper", "file", entry.Name(), "err", err)
			continue
		}
		for _, b := range l.shelf.Blocks() {
			if b.LacksPepper() && b.SetPepper(p) == nil {
				l.log.Info("pepper", "file", entry.Name(), "block", b.Header.Block)
			}
		}
	}
}

func (l *library) readPepper(path string) (manifest.Pepper, error) {
	f, err := os.Open(path)
	if err != nil {
		return manifest.Pepper{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, wire.MaxSealedPepper+1))
	if err != nil {
		return manifest.Pepper{}, err
	}
	if !l.linked {
		if p, err := manifest.ParsePepper(string(text)); err == nil {
			return p, nil
		}
	}
	sealed, err := wire.ParseSealedPepper(string(text))
	if err != nil {
		return manifest.Pepper{}, err
	}
	return l.open(sealed)
}

// file is one manifest file as it was when it was looked at.
type file struct {
	info  fs.FileInfo
	block *manifest.Block // nil when its header cannot be used
	err   error
}

func (l *library) add(ctx context.Context, name string, info fs.FileInfo) *file {
	f := &file{info: info}
	if f.block, f.err = manifest.Open(ctx, filepath.Join(l.dir, name), l.keys.At(l.trusted())); f.err != nil {
		l.log.Error("manifest", "file", name, "err", f.err)
	}
	if f.block == nil {
		return f
	}
	if err := l.shelf.Put(f.block); err != nil {
		f.err = err
		l.log.Error("manifest", "file", name, "err", err)
	}
	if info.ModTime().After(l.newest) {
		l.newest = info.ModTime()
	}
	h := f.block.Header
	l.log.Info("manifest", "file", name, "game", h.Game, "block", h.Number, "tickets", h.Tickets, "scaled", h.Scaled)
	return f
}

func (l *library) trusted() time.Time {
	if l.now == nil {
		return time.Time{}
	}
	return l.now()
}

// date is how new the newest manifest is.
func (l *library) date() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

func (l *library) list() []control.Block {
	out := []control.Block{}
	for _, b := range l.shelf.Blocks() {
		h := b.Header
		out = append(out, control.Block{Game: h.Game, GameCode: h.GameCode, Emission: h.Emission, Number: h.Number, ID: h.Block.String(),
			Tickets: h.Tickets, Scaled: h.Scaled, Damaged: b.Damage() != nil, Locked: b.LacksPepper(), File: filepath.Base(b.Path())})
	}
	return out
}

// damaged names the files that answer nothing.
func (l *library) damaged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for name, f := range l.seen {
		if f.err != nil || f.block.Damage() != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (l *library) close() {
	for _, b := range l.shelf.Blocks() {
		logError(l.log, "closing a manifest", b.Close())
	}
}
