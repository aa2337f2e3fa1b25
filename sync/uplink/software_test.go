package uplink

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/wire"
)

// box is a terminal's software as a test sets it.
type box struct {
	mu   sync.Mutex
	s    wire.Software
	sums wire.Pieces
}

func (b *box) State() *wire.Software { b.mu.Lock(); defer b.mu.Unlock(); s := b.s; return &s }

func (b *box) Pieces([]byte) (wire.Pieces, error) { return b.sums, nil }

func (b *box) set(s wire.Software) { b.mu.Lock(); b.s = s; b.mu.Unlock() }

// TestAnOfferedUpdateComesByPiecesAndGoesWhenItIsDone: over a line that breaks, its
// manifest last; central hears how far it is; what it takes back or what has ended goes.
func TestAnOfferedUpdateComesByPiecesAndGoesWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		raw := bytes.Repeat([]byte("bundle."), 3<<20/7)
		pieces, err := wire.ReadPieces(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		b := &box{s: wire.Software{Board: "grattoir-pi", Version: "1.0", Number: 10}, sums: pieces}
		r.opt.Software, r.opt.UpdateDir = b, filepath.Join(t.TempDir(), "updates")
		r.start()
		pass(2 * time.Minute)
		u := central.Bundle{Board: "grattoir-pi", Version: "1.1", Number: 11, SHA256: pieces.Block, Size: pieces.Size, Manifest: "manifest\n"}
		if err := r.real.PublishUpdate(t.Context(), u, bytes.NewReader(raw), "anne"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if list := filesIn(t, r.opt.UpdateDir); len(list) != 0 {
			t.Fatalf("before it is offered: %v", list)
		}
		if err := r.real.Roll(t.Context(), "1.1", central.Rollout{Percent: 100}, "anne"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		want := []string{pieces.Block + ".raucb", pieces.Block + ".update"}
		if list := filesIn(t, r.opt.UpdateDir); !slices.Equal(list, want) {
			t.Fatalf("%v; %+v", list, r.uplink.Status().Faults)
		}
		if got, err := os.ReadFile(filepath.Join(r.opt.UpdateDir, want[0])); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		state := func() string {
			p, err := r.real.UpdateProgress(t.Context(), "1.1")
			if err != nil {
				t.Fatal(err)
			}
			return p.Terminals[0].State
		}
		if got := state(); got != "downloading" {
			t.Errorf("central has it as %s", got)
		}
		told := wire.UpdateState{Version: "1.1", Number: 11, SHA256: pieces.Block, Step: wire.UpdateWaiting, Reason: "somebody is signed on"}
		b.set(wire.Software{Board: "grattoir-pi", Version: "1.0", Number: 10, Update: &told})
		pass(3 * time.Minute)
		if got := state(); got != "waiting" {
			t.Errorf("central has it as %s", got)
		}
		if err := r.real.HaltUpdate(t.Context(), "1.1", "wait", "anne"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if list := filesIn(t, r.opt.UpdateDir); len(list) != 0 {
			t.Errorf("halted, it lies here still: %v", list)
		}
		if err := r.real.ResumeUpdate(t.Context(), "1.1", "go on", "anne"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if list := filesIn(t, r.opt.UpdateDir); !slices.Equal(list, want) {
			t.Errorf("resumed: %v", list)
		}
		good := told
		good.Step, good.Reason = wire.UpdateGood, ""
		b.set(wire.Software{Board: "grattoir-pi", Version: "1.1", Number: 11, Update: &good})
		pass(3 * time.Minute)
		if list := filesIn(t, r.opt.UpdateDir); len(list) != 0 || state() != "good" {
			t.Errorf("%v lies here, central has it as %s", list, state())
		}
		if s := r.uplink.Status(); len(s.Faults) != 0 {
			t.Errorf("%+v", s.Faults)
		}
	})
}

func filesIn(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
