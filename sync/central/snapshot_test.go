package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// newest is the snapshot that is served.
func newest(t testing.TB, c *Central) wire.Snapshot {
	t.Helper()
	_, signed, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(signed, "\n\n")
	s, err := wire.ParseSnapshot(text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) inRegion(t testing.TB, name, region string) {
	t.Helper()
	if _, err := w.AddTerminal(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := w.SetRegion(t.Context(), name, region); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotTellsWhereABlockIsSoldAndChangesOnlyWithIt(t *testing.T) {
	onEachStore(t, testSnapshotTellsWhereABlockIsSoldAndChangesOnlyWithIt)
}

func testSnapshotTellsWhereABlockIsSoldAndChangesOnlyWithIt(t *testing.T, w *world) {
	for name, region := range map[string]string{"B-1": "bzh", "B-2": "bzh", "I-1": "idf", "N-1": ""} {
		w.inRegion(t, name, region)
	}
	s := newest(t, w.Central)
	if b := s.Blocks[0]; s.Version != 2 || b.FirstPack != 10 || b.LastPack != 19 || b.Published != (policy.Date{Year: 2026, Month: 11, Day: 30}) || !b.DropAfter.IsZero() || b.Regions != nil {
		t.Fatalf("%+v", s)
	}
	act := func(what string, version int64, regions []string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s := newest(t, w.Central); s.Version != version || !reflect.DeepEqual(s.Blocks[0].Regions, regions) {
			t.Errorf("%s: version %d, regions %v, want version %d, %v", what, s.Version, s.Blocks[0].Regions, version, regions)
		}
	}
	deliver := func(pack uint32, to string) func() error {
		return func() error { _, err := w.Deliver(t.Context(), "399", pack, pack, to); return err }
	}
	region := func(name, region string) func() error {
		return func() error { return w.SetRegion(t.Context(), name, region) }
	}
	act("to nowhere in particular", 2, nil, deliver(10, "N-1"))
	act("the first pack into a region", 3, []string{"bzh"}, deliver(11, "B-1"))
	act("another into the same", 3, []string{"bzh"}, deliver(12, "B-2"))
	act("into a second one", 4, []string{"bzh", "idf"}, deliver(13, "I-1"))
	act("put on sale", 4, []string{"bzh", "idf"}, func() error { _, err := w.Activate(t.Context(), "399", 10, 13); return err })
	act("one of two moves away", 5, []string{"bzh", "cor", "idf"}, region("B-1", "cor"))
	act("so does the other", 6, []string{"cor", "idf"}, region("B-2", "idf"))
	act("said again", 6, []string{"cor", "idf"}, region("B-2", "idf"))
	act("nowhere any more", 7, []string{"idf"}, region("B-1", ""))
	if err := w.SetRegion(t.Context(), "B-9", "bzh"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a terminal that is not known: %v", err)
	}
	if err := w.SetRegion(t.Context(), "B-1", "b,h"); !errors.Is(err, ErrRefused) {
		t.Errorf("a list for a region: %v", err)
	}
}

func TestHelloTellsTheTerminalItsRegion(t *testing.T) {
	onEachStore(t, testHelloTellsTheTerminalItsRegion)
}

func testHelloTellsTheTerminalItsRegion(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	for _, region := range []string{"", "bzh", "idf", ""} {
		if err := w.SetRegion(t.Context(), "T-1", region); err != nil {
			t.Fatal(err)
		}
		var a wire.HelloAnswer
		if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1, Head: d.head(0), DeviceTime: wire.FormatTime(noon), Faults: []string{}}, &a); e != nil {
			t.Fatal(e)
		}
		if x, err := w.Terminal(t.Context(), "T-1"); a.Region != region || err != nil || x.Region != region {
			t.Errorf("%q: told %q, listed %q, %v", region, a.Region, x.Region, err)
		}
	}
}

func TestClosingNoticeSaysWhenABlockMayBeDropped(t *testing.T) {
	onEachStore(t, testClosingNoticeSaysWhenABlockMayBeDropped)
}

func testClosingNoticeSaysWhenABlockMayBeDropped(t *testing.T, w *world) {
	day := func(text string) policy.Date {
		if text == "" {
			return policy.Date{}
		}
		d, err := policy.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	closing := func(on string, past bool) (ClosingNotice, error) {
		return w.CloseEmission(t.Context(), "bingo", "1", day(on), 30, past)
	}
	for _, step := range []struct {
		on, lastClaim, drop string
		past                bool
		version             int64
	}{
		{"2026-11-30", "2026-12-30", "2027-02-28", false, 3},
		{"2026-11-30", "2026-12-30", "2027-02-28", false, 3},
		{"2027-11-15", "2027-12-15", "2028-02-13", false, 4},
		{"2001-04-01", "2001-05-02", "2001-07-01", true, 5}, // the vector of the regulation: the 1st of May is a holiday
		{"", "", "", false, 6},
	} {
		n, err := closing(step.on, step.past)
		if err != nil || n.Closed != step.on || n.LastClaim != step.lastClaim || n.DropAfter != step.drop || n.Blocks != 1 {
			t.Errorf("closed on %q: %+v, %v", step.on, n, err)
		}
		if s := newest(t, w.Central); s.Version != step.version || s.Blocks[0].DropAfter != day(step.drop) || s.Blocks[0].Closed != day(step.on) {
			t.Errorf("closed on %q: snapshot %d says %v and %v", step.on, s.Version, s.Blocks[0].Closed, s.Blocks[0].DropAfter)
		}
	}
	// 30 days and 60 of grace before noon of 2026-11-30, and a day more.
	if _, err := closing("2026-08-31", false); !errors.Is(err, ErrRefused) {
		t.Errorf("a date that drops the block at once: %v", err)
	}
	if _, err := closing("2026-09-01", false); err != nil {
		t.Errorf("the last day of the grace: %v", err)
	}
	for name, emission := range map[string]string{"bingo": "2", "bingo-live": "1", "": ""} {
		if _, err := w.CloseEmission(t.Context(), name, emission, day("2027-01-01"), 30, false); !errors.Is(err, ErrNotFound) {
			t.Errorf("game %q, emission %q: %v", name, emission, err)
		}
	}
	if _, err := w.CloseEmission(t.Context(), "bingo", "1", day("2027-01-01"), 0, false); !errors.Is(err, ErrRefused) {
		t.Errorf("no claim period: %v", err)
	}
	// A block that is published later is closed with its emission.
	second, _ := sealBlock(t, w.Central, 20)
	if _, err := w.Publish(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if s := newest(t, w.Central); len(s.Blocks) != 2 || s.Blocks[1].DropAfter != s.Blocks[0].DropAfter || s.Blocks[1].DropAfter.IsZero() {
		t.Errorf("%+v", s.Blocks)
	}
}

func TestReissueMakesABlockNoYounger(t *testing.T) { onEachStore(t, testReissueMakesABlockNoYounger) }

func testReissueMakesABlockNoYounger(t *testing.T, w *world) {
	again := w.block
	again.Serial, again.SHA256, again.Published = 2, strings.Repeat("ab", 32), noon.AddDate(0, 3, 0)
	err := w.store.change(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(insertBlock(ctx, tx, again), w.relist(ctx, tx))
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := newest(t, w.Central); s.Version != 3 || s.Blocks[0].SHA256 != again.SHA256 || s.Blocks[0].Published != policy.DateOf(noon) {
		t.Errorf("%+v", s)
	}
}

// TestDatabaseOfTheFirstSchemaIsMigrated opens a folder as the first program left it,
// with a snapshot in that program's words.
func TestDatabaseOfTheFirstSchemaIsMigrated(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite3", filepath.Join(dir, "central.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("schema/sqlite"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"INSERT INTO terminals(name, state, added, ack_hash) VALUES('T-1', 'never-seen', '2026-11-30T12:00:00.000Z', '" + noHash + "')",
		"INSERT INTO snapshots(version, issued, note) VALUES(7, '2026-11-30T12:00:00.000Z', 'grattoir snapshot v1\nversion 7\nissued 2026-11-30T12:00:00.000Z\nblocks 1\nblock 00 1 00399 1\n\n— x')",
	} {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := testCentral(t, dir, &clock{at: noon.Add(time.Hour)})
	if s := newest(t, c); s.Version != 8 || len(s.Blocks) != 0 {
		t.Errorf("%+v", s)
	}
	if x, err := c.Terminal(t.Context(), "T-1"); err != nil || x.Region != "" {
		t.Errorf("%+v, %v", x, err)
	}
	if err := c.SetRegion(t.Context(), "T-1", "bzh"); err != nil {
		t.Error(err)
	}
}
