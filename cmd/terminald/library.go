package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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

	mu   sync.Mutex
	seen map[string]*file // by name
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

// rescan brings the shelf to what lies in the folder: files that are new or changed are
// opened, blocks whose file has gone are taken off. A block that is in both, under
// another name or in another file, answers all the time. A file that cannot be used is
// named and leaves the others working.
func (l *library) rescan(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	there, aside, err := l.files()
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	for name, info := range there {
		if old := l.seen[name]; old == nil || old.changed(info) {
			l.seen[name] = l.add(ctx, name, info)
			l.remove(name, old)
		}
	}
	for name, f := range l.seen {
		if there[name] == nil && !aside[name] {
			delete(l.seen, name)
			l.remove(name, f)
			l.log.Info("manifest is gone", "file", name)
		}
	}
	l.setAside(there)
	l.shelf.Unreadable(l.unreadable()...)
	l.readPeppers()
	if len(l.shelf.Blocks()) == 0 {
		l.log.Warn("no block lies here: every ticket is an unknown game; bring one with terminalctl manifest import", "folder", l.dir)
	}
	return nil
}

const (
	manifestSuffix = ".manifest"
	asideSuffix    = ".damaged"
)

// files lists the manifests of the folder, and those whose damaged file was set aside:
// until a whole one comes, their tickets are answered with damage and not with a missing
// block.
func (l *library) files() (there map[string]fs.FileInfo, aside map[string]bool, err error) {
	list, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, nil, err
	}
	there, aside = map[string]fs.FileInfo{}, map[string]bool{}
	for _, entry := range list {
		name := entry.Name()
		if whole, ok := strings.CutSuffix(name, asideSuffix); ok {
			aside[whole] = true
		}
		if info, err := os.Stat(filepath.Join(l.dir, name)); err == nil && strings.HasSuffix(name, manifestSuffix) {
			there[name] = info
		}
	}
	return there, aside, nil
}

// setAside puts damaged files of central's out of the way. The link fetches them again;
// a file that was brought by hand is left where it is.
func (l *library) setAside(there map[string]fs.FileInfo) {
	if !l.linked {
		return
	}
	for name, f := range l.seen {
		if there[name] == nil || !errors.Is(f.err, manifest.ErrDamaged) || !uplink.IsBlockName(strings.TrimSuffix(name, manifestSuffix)) {
			continue
		}
		if err := os.Rename(filepath.Join(l.dir, name), filepath.Join(l.dir, name+asideSuffix)); err == nil {
			l.log.Warn("damaged manifest set aside, to be fetched again", "file", name)
		}
	}
}

// unreadable names the files that may be manifests and whose header cannot be used.
func (l *library) unreadable() (names []string) {
	for name, f := range l.seen {
		if f.block == nil && (errors.Is(f.err, manifest.ErrDamaged) || errors.Is(f.err, manifest.ErrSignature)) {
			names = append(names, name)
		}
	}
	return names
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
func (l *library) readPeppers() {
	if len(l.lackPeppers()) == 0 {
		return
	}
	list, err := os.ReadDir(l.dir)
	if err != nil {
		l.log.Error("peppers", "err", err)
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
	text, err := cli.ReadBounded(path, wire.MaxSealedPepper)
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

// changed tells whether the file is another one now, or was written to. The time of the
// last change of state tells what copying with the old time of writing would hide.
func (f *file) changed(now fs.FileInfo) bool {
	return !os.SameFile(f.info, now) || f.info.Size() != now.Size() || !f.info.ModTime().Equal(now.ModTime()) || stateTime(f.info) != stateTime(now)
}

func stateTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
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
		l.log.Error("manifest", "file", name, "err", err)
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

// remove takes a file's block off the shelf, once nobody looks into it any more.
func (l *library) remove(name string, f *file) {
	if f != nil && f.block != nil {
		logError(l.log, "closing manifest "+name, l.shelf.Remove(f.block))
	}
}

// know tells the shelf which game codes exist: a ticket of a listed block that is not
// here is of a missing block, not of an unknown game.
func (l *library) know(listed []wire.Block) {
	for _, b := range listed {
		l.shelf.Know(b.GameCode)
	}
}

// learn tells the shelf of the games in central's catalogue, also those that are newer than
// this program. A check that is under way ends as it began: the shelf takes it in between
// two of them.
func (l *library) learn(catalogue func() ([]byte, error)) error {
	text, err := catalogue()
	if err != nil || text == nil {
		return err
	}
	games, err := configs.DecodeCatalogue(text)
	if err != nil {
		return err
	}
	for _, g := range games {
		for _, e := range g.Emissions {
			if e.GameCode != nil {
				l.shelf.Know(*e.GameCode)
			}
		}
	}
	l.log.Info("catalogue in use", "games", len(games))
	return nil
}

// held is what the link must know of a file of central's.
func (l *library) held(sha256 string) (uplink.Held, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.seen[sha256+manifestSuffix]
	if f == nil || f.block == nil {
		return uplink.Held{}, false
	}
	h := f.block.Header
	return uplink.Held{GameCode: h.GameCode, FirstPack: h.FirstPack, LastPack: h.LastPack(), Sound: f.block.Damage() == nil && !f.block.LacksPepper()}, true
}

// of is the header of the block that a pack is in, false where it is not here.
func (l *library) of(gameCode string, pack uint32) (manifest.Header, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.seen {
		if f.block == nil {
			continue
		}
		if h := f.block.Header; h.GameCode == gameCode && h.FirstPack <= pack && pack <= h.LastPack() {
			return h, true
		}
	}
	return manifest.Header{}, false
}

// date is how new the newest manifest is.
func (l *library) date() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest time.Time
	for _, f := range l.seen {
		if f.block != nil && f.info.ModTime().After(newest) {
			newest = f.info.ModTime()
		}
	}
	return newest
}

func (l *library) list() []control.Block {
	overlaps := l.overlaps()
	out := []control.Block{}
	for _, b := range l.shelf.Blocks() {
		h, name := b.Header, filepath.Base(b.Path())
		out = append(out, control.Block{Game: h.Game, GameCode: h.GameCode, Emission: h.Emission, Number: h.Number, ID: h.Block.String(),
			Tickets: h.Tickets, Scaled: h.Scaled, Damaged: b.Damage() != nil, Locked: b.LacksPepper(), Overlaps: overlaps[name], File: name})
	}
	return out
}

// overlaps names, for each file whose packs another block claims too, that other file.
func (l *library) overlaps() map[string]string {
	names := map[string]string{}
	for _, pair := range l.shelf.Overlaps() {
		a, b := filepath.Base(pair[0].Path()), filepath.Base(pair[1].Path())
		names[a], names[b] = b, a
	}
	return names
}

// damaged names the files whose tickets are not answered, or not all of them: both of two
// that claim the same packs.
func (l *library) damaged() []string {
	overlaps := l.overlaps()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for name, f := range l.seen {
		if f.err != nil || f.block.Damage() != nil || overlaps[name] != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (l *library) close() error { return l.shelf.Close() }
