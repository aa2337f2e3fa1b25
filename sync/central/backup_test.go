package central

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// TestRestoredCentralNoticesWhatItLostAndTakesItAgain is the drill, from and into either
// kind of database: a backup while it serves, two more payments, the disk is gone.
func TestRestoredCentralNoticesWhatItLostAndTakesItAgain(t *testing.T) {
	lite := func(testing.TB) string { return "" }
	for name, drill := range map[string]struct{ from, into func(testing.TB) string }{
		"SQLite":               {lite, lite},
		"PostgreSQL":           {func(t testing.TB) string { return server.Database(t, nil) }, func(t testing.TB) string { return server.Fresh(t) }},
		"SQLite to PostgreSQL": {lite, func(t testing.TB) string { return server.Fresh(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, drill.from(t))
			d := w.enrolled(t, "T-1")
			w.give(t, "T-1", 10, 18)
			d.pay(t, w.winners(10, 18)[:2]...)
			d.send(t, 1, 2)
			backup := filepath.Join(t.TempDir(), "backup")
			made, err := w.Backup(t.Context(), backup)
			if err != nil || len(made.Files) < 6 {
				t.Fatalf("%d files: %v", len(made.Files), err)
			}
			d.pay(t, w.winners(10, 18)[2:4]...)
			_, before := d.send(t, 3, 4)
			feed := d.feed(t, 0)
			cursor := feed[len(feed)-1].Seq
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}

			w.clock.advance(time.Hour)
			opt := Options{Dir: filepath.Join(t.TempDir(), "again"), Database: drill.into(t), Now: w.clock.now}
			if _, err := Restore(t.Context(), backup, opt, false); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadBackup(backup); err != nil {
				t.Errorf("the backup was changed by its restore: %v", err)
			}
			w.Central = openCentral(t, Options{Dir: opt.Dir, Now: w.clock.now})
			w.dial = servePipes(t, w.Central)
			d.connect(t)
			if yes, err := w.Unsettled(t.Context(), "T-1"); err != nil || !yes {
				t.Errorf("before the terminal was heard: %v %v", yes, err)
			}
			h, e := d.hello(t, func(h *wire.Hello) { h.Head, h.Acked, h.Feed = d.head(4), before.Acked, cursor })
			if e != nil || h.Acked.Seq != 2 || h.Feed <= cursor && h.Snapshot < snapshotJump {
				t.Fatalf("%+v %v", h, e)
			}
			list, err := w.Losses(t.Context())
			if err != nil || len(list) != 1 || list[0].Terminal != "T-1" || list[0].Seq != 4 {
				t.Fatalf("%+v %v", list, err)
			}
			ack, after := d.send(t, 3, 4)
			if ack.Position != d.head(4) || len(after.Exceptions) != len(before.Exceptions) {
				t.Errorf("another answer than before: %+v", after)
			}
			if yes, err := w.Unsettled(t.Context(), "T-1"); err != nil || yes {
				t.Errorf("after all came again: %v %v", yes, err)
			}
			if n := w.count(t, "SELECT count(*) FROM claims"); n != 4 {
				t.Errorf("%d claims", n)
			}
			if _, err := w.Deliver(t.Context(), "399", 19, 19, "T-1"); !errors.Is(err, ErrRefused) {
				t.Errorf("a pack that another terminal may have had since the backup: %v", err)
			}
			if err := w.AllowClaims(t.Context(), "Mme Martin", false); err != nil {
				t.Fatal(err)
			}
			w.give(t, "T-1", 19, 19)
			if items := d.feed(t, cursor); len(items) == 0 || items[0].Seq < feedJump {
				t.Errorf("what is new is hidden below the terminal's cursor: %+v", items)
			}
			d.record(t, ledger.KindTraining, ledger.TrainingBody{})
			d.send(t, 5, 5)
			if resp, err := d.client.Get("https://localhost" + wire.PathBlocks + w.block.SHA256); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("the block: %v", err)
			}
		})
	}
}

// TestEmptyDatabaseInThePlaceOfTheOldOneIsRefused: every paid ticket could be paid again.
func TestEmptyDatabaseInThePlaceOfTheOldOneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.enrolled(t, "T-1")
	dir := w.opt.Dir
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"central.db", "central.db-wal", "central.db-shm"} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	for range 2 {
		if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "central restore") {
			t.Fatal(err)
		}
	}
	other := newWorld(t)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(other.opt.Database)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "central.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrRefused) {
		t.Errorf("another central's tables: %v", err)
	}
}

func TestBackupThatWasChangedOrCutIsNotRestored(t *testing.T) {
	w := newWorld(t)
	spoil := map[string]func(dir string) error{
		"cut":           func(dir string) error { return os.Remove(filepath.Join(dir, backupList)) },
		"without a key": func(dir string) error { return os.Remove(filepath.Join(dir, "keys", "sign.key")) },
		"changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "keys", "claim.key"), []byte("x"), 0o600)
		},
	}
	for name, f := range spoil {
		dir := filepath.Join(t.TempDir(), "b")
		if _, err := w.Backup(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Backup(t.Context(), dir); !errors.Is(err, ErrRefused) {
			t.Errorf("a second one over it: %v", err)
		}
		if err := f(dir); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "c")
		if _, err := Restore(t.Context(), dir, Options{Dir: into}, false); err == nil {
			t.Errorf("%s: restored", name)
		}
		if _, err := os.Stat(into); err == nil {
			t.Errorf("%s: a folder was made", name)
		}
	}
	dir := filepath.Join(t.TempDir(), "b")
	if _, err := w.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), dir, Options{Dir: w.opt.Dir}, false); !errors.Is(err, ErrRefused) {
		t.Errorf("over a living central: %v", err)
	}
}
