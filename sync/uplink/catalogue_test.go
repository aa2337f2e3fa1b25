package uplink

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/wire"
)

// TestCatalogueComesWithTheSnapshotAndStays: over a restart with no network, not when its
// file was changed, and the newest takes its place. Software is read where it is named.
func TestCatalogueComesWithTheSnapshotAndStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		var heard atomic.Int64
		r.opt.OnCatalogue = func() { heard.Add(1) }
		r.start()
		pass(time.Minute)
		if text, err := r.uplink.Catalogue(); text != nil || err != nil || r.uplink.Software() != nil {
			t.Fatalf("before there is one: %q %v", text, err)
		}
		release := wire.Release{Name: "terminald", Version: "1.4.0", SHA256: strings.Repeat("ab", 32), Size: 7}
		if _, err := r.real.Announce(t.Context(), release, "anne"); err != nil {
			t.Fatal(err)
		}
		for n, want := range []string{"a catalogue\n", "another one\n"} {
			if _, err := r.real.PublishCatalogue(t.Context(), []byte(want), 1, "anne"); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Minute)
			if text, err := r.uplink.Catalogue(); err != nil || string(text) != want || heard.Load() != int64(n+1) {
				t.Fatalf("%q, told %d times: %v", text, heard.Load(), err)
			}
		}
		if list := r.uplink.Software(); len(list) != 1 || list[0] != release {
			t.Errorf("%+v", list)
		}
		if s := r.uplink.Status(); len(s.Faults) != 0 || s.Snapshot < 4 {
			t.Errorf("%+v", s)
		}

		r.stop()
		r.net.cut(true)
		r.start()
		pass(time.Second)
		if text, err := r.uplink.Catalogue(); err != nil || string(text) != "another one\n" || len(r.uplink.Software()) != 1 {
			t.Errorf("after a restart with no network: %q %v", text, err)
		}
		path := filepath.Join(r.opt.Blocks.Dir, catalogueFile)
		if err := os.WriteFile(path, []byte("of a stranger"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.uplink.Catalogue(); !errors.Is(err, ErrCatalogue) {
			t.Errorf("changed: %v", err)
		}
		r.net.cut(false)
		pass(2 * time.Hour)
		if text, err := r.uplink.Catalogue(); err != nil || string(text) != "another one\n" {
			t.Errorf("it was not fetched again: %q %v", text, err)
		}
	})
}
