package seal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// hostile changes a sealed file by SQL, as somebody with the card could.
func (f fixture) hostile(t testing.TB, statements ...string) string {
	t.Helper()
	path, _ := f.seal(t)
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// answersNothingWrong opens a file and asks for every ticket: right, or damage, or no
// manifest at all, with an error that says what to do.
func (f fixture) answersNothingWrong(t testing.TB, path string) (refused bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	b, err := manifest.Open(ctx, path, f.keys)
	if b == nil {
		if err == nil || len(err.Error()) > 600 {
			t.Fatalf("no block, and the error is %.200v", err)
		}
		return true
	}
	defer func() { _ = b.Close() }()
	refused = err != nil
	f.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		tier, err := b.Open(ctx, c)
		switch {
		case errors.Is(err, manifest.ErrDamaged):
			refused = true
		case err != nil:
			t.Fatalf("ticket %v: %v", c, err)
		case tier == 0 && prize != 0, tier > 0 && b.Header.Tiers[tier-1].Amount != prize:
			t.Fatalf("ticket %v of %d minor units is tier %d", c, prize, tier)
		}
	})
	return refused
}

func TestHostileFilesAreRefusedAndNeverAnswerWrong(t *testing.T) {
	f := newFixture(t, 1200)
	table := func(name, columns, from string) []string {
		return []string{"ALTER TABLE " + name + " RENAME TO old", "CREATE TABLE " + name + columns, "INSERT INTO " + name + " " + from, "DROP TABLE old"}
	}
	sqls := map[string][]string{
		"chunks and leaves swapped":    {"ALTER TABLE chunks RENAME TO x", "ALTER TABLE leaves RENAME TO chunks", "ALTER TABLE x RENAME TO leaves"},
		"contents swapped":             {"CREATE TEMP TABLE x AS SELECT * FROM chunks", "DELETE FROM chunks", "INSERT INTO chunks SELECT * FROM leaves", "DELETE FROM leaves", "INSERT INTO leaves SELECT * FROM x"},
		"two chunks swapped":           {"UPDATE chunks SET chunk = chunk + 100", "UPDATE chunks SET chunk = 101 - chunk WHERE chunk IN (100, 101)", "UPDATE chunks SET chunk = 2 WHERE chunk = 102"},
		"a chunk repeated":             {"UPDATE chunks SET sealed = (SELECT sealed FROM chunks WHERE chunk = 0) WHERE chunk = 1"},
		"chunks missing":               {"DELETE FROM chunks"},
		"leaves missing":               {"DELETE FROM leaves"},
		"a leaf more":                  {"INSERT INTO leaves SELECT 9, hash FROM leaves WHERE chunk = 0"},
		"no header":                    {"DELETE FROM header"},
		"two headers":                  {"INSERT INTO header SELECT note FROM header"},
		"an empty header":              {"UPDATE header SET note = ''"},
		"a header of another kind":     {"UPDATE header SET note = 17"},
		"a header as a blob":           {"UPDATE header SET note = CAST(note AS BLOB)"},
		"a header of 20 MB":            {"UPDATE header SET note = note || printf('%.20000000c', 'x')"},
		"a chunk of 100 MB":            {"UPDATE chunks SET sealed = zeroblob(100000000) WHERE chunk = 0"},
		"a leaf of 100 MB":             {"UPDATE leaves SET hash = zeroblob(100000000) WHERE chunk = 0"},
		"chunks as text":               {"UPDATE chunks SET sealed = CAST(sealed AS TEXT)"},
		"a null leaf":                  table("leaves", "(chunk INTEGER PRIMARY KEY, hash BLOB)", "SELECT chunk, NULL FROM old"),
		"chunks without rowid":         table("chunks", "(chunk INTEGER PRIMARY KEY, sealed BLOB NOT NULL) WITHOUT ROWID", "SELECT * FROM old"),
		"a generated column":           table("chunks", "(chunk INTEGER PRIMARY KEY, s BLOB, sealed BLOB AS (s))", "SELECT chunk, sealed FROM old"),
		"chunks as a view":             {"ALTER TABLE chunks RENAME TO real", "CREATE VIEW chunks AS SELECT * FROM real"},
		"a view that never ends":       {"DROP TABLE leaves", "CREATE VIEW leaves AS WITH RECURSIVE n(chunk, hash) AS (SELECT 0, zeroblob(32) UNION ALL SELECT chunk + 1, hash FROM n) SELECT * FROM n"},
		"a header that is a view":      {"ALTER TABLE header RENAME TO real", "CREATE VIEW header AS SELECT note FROM real"},
		"an endless header":            {"DROP TABLE header", "CREATE VIEW header AS WITH RECURSIVE n(note) AS (SELECT 'x' UNION ALL SELECT note || 'x' FROM n) SELECT note FROM n"},
		"a trigger":                    {"CREATE TRIGGER t AFTER UPDATE ON chunks BEGIN DELETE FROM leaves; END"},
		"an index":                     {"CREATE INDEX i ON chunks(sealed)"},
		"a virtual table":              {"CREATE VIRTUAL TABLE v USING rtree(id, a, b)"},
		"pages of 64 KiB":              {"PRAGMA page_size = 65536", "VACUUM"},
		"pages of 512 bytes":           {"PRAGMA page_size = 512", "VACUUM"},
		"a write-ahead log":            {"PRAGMA journal_mode = WAL"},
		"another application":          {"PRAGMA application_id = 1"},
		"another encoding":             {"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = replace(sql, 'BLOB', 'TEXT')"},
		"a schema that is no SQL":      {"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = 'CREATE TABLE chunks(' WHERE name = 'chunks'"},
		"a root page out of the file":  {"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'chunks'"},
		"two tables on one page":       {"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'leaves') WHERE name = 'chunks'"},
		"a thousand tables":            manyTables(1000),
		"a column default that is SQL": table("leaves", "(chunk INTEGER PRIMARY KEY, hash BLOB NOT NULL DEFAULT (zeroblob(1000000000)))", "SELECT * FROM old"),
	}
	harmless := map[string]bool{"pages of 64 KiB": true, "pages of 512 bytes": true, "a write-ahead log": true, "a header as a blob": true}
	for name, statements := range sqls {
		t.Run(name, func(t *testing.T) {
			path := f.hostile(t, statements...)
			if refused := f.answersNothingWrong(t, path); !refused && !harmless[name] {
				t.Error("it was taken for the true file")
			}
		})
	}
}

func manyTables(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("CREATE TABLE t%d(a, b, c)", i))
	}
	return out
}

func TestFilesThatAreNoManifestAreRefusedInWords(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zeroed := bytes.Clone(good)
	clear(zeroed[16:100]) // the header of the database
	for name, text := range map[string][]byte{
		"empty":                  {},
		"one byte":               {'S'},
		"text":                   []byte("code,prize_minor\n"),
		"half of its first page": good[:2048],
		"its first page":         good[:4096],
		"half":                   good[:len(good)/2],
		"without its last page":  good[:len(good)-4096],
		"no database header":     zeroed,
		"zeros":                  make([]byte, len(good)),
	} {
		bad := filepath.Join(t.TempDir(), "bad.manifest")
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if !f.answersNothingWrong(t, bad) {
			t.Errorf("%s: taken for a manifest", name)
		}
	}
	dir := t.TempDir()
	for _, odd := range []string{dir, filepath.Join(dir, "none.manifest"), "/dev/null"} {
		if b, err := manifest.Open(context.Background(), odd, f.keys); b != nil || err == nil {
			t.Errorf("%s was opened", odd)
		}
	}
}

// TestHostileBlobsStayOnTheDisk: a hundred megabytes in a row must not come into memory.
func TestHostileBlobsStayOnTheDisk(t *testing.T) {
	f := newFixture(t, 1200)
	for _, statement := range []string{
		"UPDATE chunks SET sealed = zeroblob(200000000) WHERE chunk = 1",
		"UPDATE leaves SET hash = zeroblob(200000000) WHERE chunk = 1",
		"UPDATE header SET note = printf('%.200000000c', 'x')",
	} {
		path := f.hostile(t, statement)
		runtime.GC()
		before := peakMemory(t)
		f.answersNothingWrong(t, path)
		if grown := peakMemory(t) - before; grown > 60<<20 {
			t.Errorf("%s: %d MB came into memory", statement, grown>>20)
		}
	}
}

// peakMemory is the most memory that the process has had since it was last asked, in bytes.
func peakMemory(t testing.TB) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: this system does not tell a process's memory")
	}
	for _, line := range strings.Split(string(status), "\n") {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); err == nil {
			bytes <<= 10
		}
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // forget the peak
		t.Logf("the peak is that of the whole run: %v", err)
	}
	return bytes
}

// FuzzOpen changes a sealed file in one place, shortens or lengthens it: every ticket is
// answered right, or with damage, or the file is refused.
func FuzzOpen(fz *testing.F) {
	f := newFixture(fz, 600)
	path, _ := f.seal(fz)
	good, err := os.ReadFile(path)
	if err != nil {
		fz.Fatal(err)
	}
	fz.Add(uint32(0), []byte("SQLite format 4"), uint32(len(good)))
	fz.Add(uint32(100), []byte{5, 0, 0, 0, 9, 255}, uint32(len(good)))
	fz.Add(uint32(4096), []byte{13, 0, 0}, uint32(len(good)-1))
	bad := filepath.Join(fz.TempDir(), "bad.manifest")
	fz.Fuzz(func(t *testing.T, at uint32, change []byte, size uint32) {
		text := bytes.Clone(good)
		copy(text[int(at)%len(text):], change)
		text = text[:min(int(size), len(text))]
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		f.answersNothingWrong(t, bad)
	})
}
