package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"grattoir/sync/ledger/powercut"
)

// TestMigrationSurvivesPowerCuts carries every earlier version's file forward on a disk
// that loses its power at each step. What is left is the old version or the new one, whole
// and with every payment; it is the old one until its copy lies beside it; and the next
// start carries it on.
func TestMigrationSurvivesPowerCuts(t *testing.T) {
	for version := 1; version < len(migrations); version++ {
		t.Run(fmt.Sprintf("from version %d", version), func(t *testing.T) {
			m := newMigrant(t, version)
			m.migrate(t)
			m.cutEverywhere(t)
		})
	}
}

// migrant is an old ledger on a disk that logs, and a disk to look at what is left.
type migrant struct {
	version     int
	opt         Options
	disk, after *powercut.Disk
	image       powercut.Image
	copied      int // events that were done when the copy was there
	rng         *rand.Rand
}

func newMigrant(t *testing.T, version int) *migrant {
	t.Helper()
	raw, err := os.ReadFile(versionFile(version))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("migrant-%d", version)
	disk, err1 := powercut.New(name)
	after, err2 := powercut.New(name + "-look")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(disk.Close(), after.Close()); err != nil {
			t.Error(err)
		}
	})
	m := &migrant{version: version, opt: options(t.TempDir()), disk: disk, after: after, copied: -1, rng: rand.New(rand.NewPCG(uint64(version), 9))}
	m.image = m.image.With(filepath.Base(m.opt.Path), raw)
	m.opt.hooks.vfs = name
	return m
}

// migrate opens the file with today's program, and pays with it.
func (m *migrant) migrate(t *testing.T) {
	t.Helper()
	if err := m.disk.Load(m.image); err != nil {
		t.Fatal(err)
	}
	done := 0
	m.disk.Inject(func(powercut.Event) int {
		if list, err := filepath.Glob(m.opt.Path + ".v*"); m.copied < 0 && (err != nil || len(list) > 0) {
			m.copied = done
		}
		done++
		return 0
	})
	l := openTest(t, m.opt)
	checkAged(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list := aside(t, m.opt.Path)
	if len(list) != 1 || m.copied < 0 {
		t.Fatalf("copies %v, the first after %d steps of the disk", list, m.copied)
	}
	if err := checkCopy(context.Background(), list[0], m.version); err != nil {
		t.Error(err)
	}
}

func (m *migrant) cutEverywhere(t *testing.T) {
	t.Helper()
	cuts, old, carried := 0, 0, 0
	p := m.disk.Platter()
	for more := true; more && !t.Failed(); more = p.Next() {
		times := 1
		if p.Unsynced() > 0 {
			times = 3
		}
		if raceEnabled {
			times = 1
		}
		for range times {
			cuts++
			version := m.left(t, p.Image(m.rng, powercut.Hardware{}))
			switch {
			case version == m.version:
				old++
			case version == len(migrations) && p.At() > m.copied:
				carried++
			default:
				t.Errorf("after step %d it is of version %d; its copy was there after step %d", p.At(), version, m.copied)
			}
		}
	}
	if old == 0 || carried == 0 {
		t.Errorf("%d cuts left the old version, %d the new one: both are wanted", old, carried)
	}
	t.Logf("%d cuts: %d left version %d, %d version %d", cuts, old, m.version, carried, len(migrations))
}

// left looks at what a cut has left: its version, whole by that version's own rules; then
// today's program opens it, finds every payment, and pays no ticket again.
func (m *migrant) left(t *testing.T, image powercut.Image) (version int) {
	t.Helper()
	ctx := context.Background()
	if err := m.after.Load(image); err != nil {
		t.Fatal(err)
	}
	opt := m.opt
	opt.hooks.vfs = fmt.Sprintf("migrant-%d-look", m.version)
	opt.Path = filepath.Join(t.TempDir(), filepath.Base(m.opt.Path))
	db := openOn(t, opt)
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		t.Errorf("what is left cannot be read: %v", err)
		return 0
	}
	if version < 1 || version > len(migrations) {
		return version
	}
	if _, err := verify(ctx, db, migrations[:version]); err != nil {
		t.Errorf("what is left is no whole file of version %d: %v", version, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	l, err := Open(ctx, opt)
	if err != nil {
		t.Errorf("what is left, version %d, does not open: %v", version, err)
		return version
	}
	defer l.Close()
	checkAged(t, l)
	paysOn(t, l)
	return version
}

// openOn is one connection to a file as the ledger makes it.
func openOn(t *testing.T, opt Options) *sql.DB {
	t.Helper()
	db := sql.OpenDB(connector{path: opt.Path, hooks: opt.hooks})
	db.SetMaxOpenConns(1)
	return db
}
