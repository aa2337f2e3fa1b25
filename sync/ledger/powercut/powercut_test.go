package powercut

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/mattn/go-sqlite3"
)

func newDisk(t *testing.T, name string) *Disk {
	t.Helper()
	d, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func mustOpen(t *testing.T, d *Disk, path string, flags int) *handle {
	t.Helper()
	h, code := d.open(path, flags)
	if code != 0 {
		t.Fatalf("open %s: %d", path, code)
	}
	return h
}

// end walks the whole log.
func end(d *Disk) *Platter {
	p := d.Platter()
	for p.Next() {
	}
	return p
}

// images are many of what a cut at the end of the log may leave.
func images(d *Disk, hw Hardware) []Image {
	p, rng := end(d), rand.New(rand.NewPCG(1, 1))
	var list []Image
	for range 300 {
		list = append(list, p.Image(rng, hw))
	}
	return list
}

const journal = openCreate | 0x800

func TestSyncedBytesAreInEveryImage(t *testing.T) {
	d := newDisk(t, "synced")
	h := mustOpen(t, d, "j", journal)
	defer h.close()
	want := bytes.Repeat([]byte("synced!!"), 1000)
	h.write(want, 100)
	h.sync()
	h.write(bytes.Repeat([]byte{1}, 5000), 20000)
	h.truncate(9000)
	for _, i := range images(d, Hardware{}) {
		got := i.Bytes("j")
		if len(got) < 8100 || !bytes.Equal(got[100:8100], want) {
			t.Fatalf("%d bytes", len(got))
		}
	}
}

// TestUnsyncedBytesComeOutInEveryWay looks for each fate, and for bytes outside the write
// that were changed: there must be none.
func TestUnsyncedBytesComeOutInEveryWay(t *testing.T) {
	d := newDisk(t, "unsynced")
	h := mustOpen(t, d, "j", journal)
	defer h.close()
	old, young := bytes.Repeat([]byte{'o'}, 8192), bytes.Repeat([]byte{'n'}, 3000)
	h.write(old, 0)
	h.sync()
	h.write(young, 1000)
	seen := map[string]int{}
	for _, i := range images(d, Hardware{}) {
		got := i.Bytes("j")
		if !bytes.Equal(got[:1000], old[:1000]) || !bytes.Equal(got[4000:], old[4000:]) {
			t.Fatal("bytes outside the write have changed")
		}
		part := got[1000:4000]
		news, olds := bytes.Count(part, []byte{'n'}), bytes.Count(part, []byte{'o'})
		switch {
		case news == 3000:
			seen["kept"]++
		case olds == 3000:
			seen["dropped"]++
		case news+olds < 3000:
			seen["garbage"]++
		case part[0] == 'n' && part[2999] == 'o':
			seen["torn from its start"]++
		case part[0] == 'o' && part[2999] == 'n':
			seen["torn from its end"]++
		default:
			seen["scattered"]++
		}
		if news+olds == 3000 && (got[1023] != got[1000] || got[1024] != got[1535]) {
			t.Fatal("a sector is half written")
		}
	}
	if len(seen) != 6 {
		t.Errorf("%v", seen)
	}
}

func TestSectorTakesItsNeighboursOnlyWhereTheHardwareDoes(t *testing.T) {
	d := newDisk(t, "neighbours")
	h := mustOpen(t, d, "j", journal)
	defer h.close()
	h.write(bytes.Repeat([]byte{'o'}, 8192), 0)
	h.sync()
	h.write([]byte("new"), 5000)
	spoiled := 0
	for _, i := range images(d, Hardware{Sector: 4096, Neighbours: true}) {
		got := i.Bytes("j")
		if bytes.Count(got[:4096], []byte{'o'}) != 4096 {
			t.Fatal("another sector has changed")
		}
		if got[4096] != 'o' || got[8191] != 'o' {
			spoiled++
		}
	}
	if spoiled == 0 {
		t.Error("no neighbour was spoiled")
	}
}

func TestNameVanishesUnlessItsFolderWasSynced(t *testing.T) {
	for _, c := range []struct {
		name    string
		flags   int
		vanish  bool
		syncing bool
	}{{"database", openCreate, true, true}, {"journal", journal, false, true}, {"journal not synced", journal, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t, "names")
			h := mustOpen(t, d, "f", c.flags)
			defer h.close()
			h.write([]byte("text"), 0)
			if c.syncing {
				h.sync()
			}
			if gone := slices.ContainsFunc(images(d, Hardware{}), func(i Image) bool { return i.Size("f") < 0 }); gone != c.vanish {
				t.Errorf("gone %v", gone)
			}
		})
	}
}

func TestDeletedFileIsBackUnlessItsFolderWasSynced(t *testing.T) {
	for _, synced := range []bool{false, true} {
		t.Run(fmt.Sprintf("synced=%v", synced), func(t *testing.T) {
			d := newDisk(t, "deleted")
			h := mustOpen(t, d, "j", journal)
			defer h.close()
			h.write([]byte("text"), 0)
			h.sync()
			d.remove("j", synced)
			if back := slices.ContainsFunc(images(d, Hardware{}), func(i Image) bool { return i.Size("j") == 4 }); back == synced {
				t.Errorf("back %v", back)
			}
		})
	}
}

// TestFailedSyncIsNotMadeGoodByTheNext: Linux forgets that pages are dirty when writing
// them fails, and the next fsync succeeds without them.
func TestFailedSyncIsNotMadeGoodByTheNext(t *testing.T) {
	d := newDisk(t, "failed")
	h := mustOpen(t, d, "j", journal)
	defer h.close()
	h.sync()
	h.write([]byte("first"), 0)
	d.Inject(func(e Event) int {
		if e.Kind == Sync {
			return IOErrSync
		}
		return 0
	})
	if h.sync() != IOErrSync {
		t.Fatal("the sync did not fail")
	}
	d.Inject(nil)
	h.write([]byte("second"), 100)
	h.sync()
	lost := false
	for _, i := range images(d, Hardware{}) {
		got := i.Bytes("j")
		if len(got) < 106 || string(got[100:106]) != "second" {
			t.Fatalf("%q", got)
		}
		lost = lost || string(got[:5]) != "first"
	}
	if !lost {
		t.Error("the bytes of the failed sync are in every image")
	}
}

func TestKilledProgramLeavesItsBytesToTheMachine(t *testing.T) {
	d := newDisk(t, "killed")
	h := mustOpen(t, d, "j", journal)
	d.KillAfter(1)
	if h.write([]byte("kept"), 0) != 0 || h.write([]byte("late"), 4) == 0 || h.sync() == 0 {
		t.Error("it lives, or died too soon")
	}
	if d.Revive() == nil {
		t.Error("the next program begins beside the dead one")
	}
	h.close()
	if err := d.Revive(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, d, "j", 0)
	defer again.close()
	if p := make([]byte, 4); again.read(p, 0) != 0 || string(p) != "kept" || again.size() != 4 {
		t.Errorf("%q", p)
	}
	if end(d).Unsynced() == 0 {
		t.Error("a kill has made bytes durable")
	}
}

func TestContentIsWhatWasWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c content
	var want []byte
	grow := func(n int64) {
		if int64(len(want)) < n {
			want = append(want, make([]byte, n-int64(len(want)))...)
		}
	}
	for range 3000 {
		at := rng.Int64N(40000)
		before := c.clone()
		seen := make([]byte, before.size)
		before.read(seen, 0)
		if rng.IntN(8) == 0 {
			c.truncate(at)
			grow(at)
			want = want[:at]
		} else {
			data := make([]byte, rng.IntN(9000))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			c.write(data, at)
			grow(at + int64(len(data)))
			copy(want[at:], data)
		}
		got := make([]byte, c.size)
		if n := c.read(got, 0); n != len(want) || !bytes.Equal(got, want) {
			t.Fatal("other bytes")
		}
		if again := make([]byte, before.size); before.read(again, 0) != len(seen) || !bytes.Equal(again, seen) {
			t.Fatal("a clone has changed")
		}
	}
}

// TestSQLiteRunsOnTheDiskWithSeveralConnections lets SQLite's own locks and shared memory
// work: a writer and readers at once, and a second writer that waits.
func TestSQLiteRunsOnTheDiskWithSeveralConnections(t *testing.T) {
	newDisk(t, "several")
	for _, mode := range []string{"WAL", "DELETE"} {
		db, err := sql.Open("sqlite3", "file:/"+mode+".db?vfs=several&_journal_mode="+mode+"&_busy_timeout=10000&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t(b) VALUES('begin')"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 25 {
					if _, err := db.Exec("INSERT INTO t(b) VALUES(?)", fmt.Sprint(i)); err != nil {
						t.Error(err)
					}
					var n, last int
					if err := db.QueryRow("SELECT count(*), max(a) FROM t").Scan(&n, &last); err != nil || n != last {
						t.Errorf("%d rows, the last is %d: %v", n, last, err)
					}
				}
			})
		}
		all.Wait()
		var n int
		var said string
		if err := db.QueryRow("SELECT (SELECT count(*) FROM t), integrity_check FROM pragma_integrity_check").Scan(&n, &said); err != nil || n != 101 || said != "ok" {
			t.Errorf("%s: %d rows, %s, %v", mode, n, said, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInjectedCodeReachesTheProgram(t *testing.T) {
	d := newDisk(t, "inject")
	db, err := sql.Open("sqlite3", "file:/t.db?vfs=inject&_journal_mode=WAL")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t(a)"); err != nil {
		t.Fatal(err)
	}
	d.Inject(func(e Event) int {
		if e.Kind == Write {
			return Full
		}
		return 0
	})
	_, err = db.ExecContext(context.Background(), "INSERT INTO t VALUES(1)")
	d.Inject(nil)
	if code, is := errors.AsType[sqlite3.Error](err); !is || code.Code != sqlite3.ErrFull {
		t.Errorf("%v", err)
	}
}

func TestImageWithOtherBytes(t *testing.T) {
	d := newDisk(t, "with")
	image := Image{}.With("a", []byte("one")).With("b", []byte("two"))
	if err := d.Load(image.With("a", []byte("three"))); err != nil {
		t.Fatal(err)
	}
	a := mustOpen(t, d, "a", 0)
	defer a.close()
	if a.size() != 5 || image.Size("a") != 3 || string(image.Bytes("b")) != "two" {
		t.Error("other bytes")
	}
	if _, code := d.open("c", 0); code != CannotOpen {
		t.Errorf("%d", code)
	}
}
