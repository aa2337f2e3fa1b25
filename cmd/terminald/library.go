package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/validate/manifest"
)

// library is the folder of manifests, opened.
type library struct {
	dir   string
	keys  manifest.Keys
	shelf *manifest.Shelf
	log   *slog.Logger

	mu     sync.Mutex
	seen   map[string]*manifest.Block // by file name; nil for one that cannot be used
	newest time.Time
}

func newLibrary(c configs.Terminal, log *slog.Logger) (*library, error) {
	var public []string
	for _, path := range c.Keys {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		public = append(public, string(text))
	}
	keys, err := manifest.NewKeys(c.Signatures, public...)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
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
	return &library{dir: c.Manifests(), keys: keys, shelf: shelf, log: log, seen: map[string]*manifest.Block{}}, nil
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
	for _, entry := range list {
		name := entry.Name()
		if _, known := l.seen[name]; known || !strings.HasSuffix(name, ".manifest") {
			continue
		}
		l.add(ctx, name)
	}
	return nil
}

func (l *library) add(ctx context.Context, name string) {
	path := filepath.Join(l.dir, name)
	b, err := manifest.Open(ctx, path, l.keys)
	if b == nil {
		l.log.Error("manifest cannot be used", "file", name, "err", err)
		l.seen[name] = nil
		if errors.Is(err, manifest.ErrDamaged) || errors.Is(err, manifest.ErrSignature) {
			l.shelf.Damaged(name)
		}
		return
	}
	if err != nil { // its header is good: its tickets are answered with damage
		l.log.Error("manifest is damaged", "file", name, "err", err)
	}
	if err := l.shelf.Put(b); err != nil {
		l.log.Error("manifest cannot be used", "file", name, "err", err)
		_ = b.Close()
		l.seen[name] = nil
		return
	}
	l.seen[name] = b
	if info, err := os.Stat(path); err == nil && info.ModTime().After(l.newest) {
		l.newest = info.ModTime()
	}
	l.log.Info("manifest", "file", name, "game", b.Header.Game, "block", b.Header.Number, "tickets", b.Header.Tickets, "scaled", b.Header.Scaled)
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
			Tickets: h.Tickets, Scaled: h.Scaled, Damaged: b.Damage() != nil, File: filepath.Base(b.Path())})
	}
	return out
}

// damaged names the files that answer nothing.
func (l *library) damaged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for name, b := range l.seen {
		if b == nil {
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
