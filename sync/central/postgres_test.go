package central

import (
	"bytes"
	"database/sql"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// TestErasedIdentityIsGoneFromPostgres: its bytes are in no file of a table.
func TestErasedIdentityIsGoneFromPostgres(t *testing.T) {
	w := newWorldOn(t, server.Database(t, nil))
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	old := r.file(t)
	if _, err := d.identities(t, old); err != nil {
		t.Fatal(err)
	}
	part := old.Sealed[:64]
	if !w.inTables(t, part) {
		t.Fatal("it is not found even before: the test proves nothing")
	}
	w.clock.advance(time.Hour + time.Second)
	report, err := w.Reader().BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var records int
	if err := report.QueryRow("SELECT count(*) FROM identities").Scan(&records); err != nil || records != 1 {
		t.Fatalf("%d records: %v", records, err)
	}
	if n, err := w.EraseIdentities(t.Context(), time.Hour); n != 1 || err == nil || !strings.Contains(err.Error(), errBusy.Error()) {
		t.Errorf("while a report reads it: %d %v", n, err)
	}
	if err := report.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := w.EraseIdentities(t.Context(), time.Hour); err != nil || n != 0 {
		t.Fatalf("%d %v", n, err)
	}
	if w.inTables(t, part) {
		t.Error("bytes of it are left in a table's file")
	}
}

// inTables looks for bytes in the files of the server's tables, all of them written out.
func (w *world) inTables(t *testing.T, needle []byte) bool {
	t.Helper()
	u, err := url.Parse(w.opt.Database)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.(*postgresStore).write.Exec("CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	found := false
	err = filepath.WalkDir(filepath.Join(u.Query().Get("host"), "data", "base"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // gone meanwhile, with another test's tables
		}
		text, err := os.ReadFile(path)
		found = found || err == nil && bytes.Contains(text, needle)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCutConnectionsAreMadeAgain: the server was started anew, or a network between.
func TestCutConnectionsAreMadeAgain(t *testing.T) {
	w := newWorldOn(t, server.Database(t, nil))
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:2]...)
	d.send(t, 1, 1)
	cut, err := sql.Open("pgx", w.opt.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	const others = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'grattoir-central'"
	var n int
	if err := cut.QueryRow(others).Scan(&n); err != nil || n == 0 {
		t.Fatalf("%d connections cut: %v", n, err)
	}
	var a wire.UploadAnswer
	for e := post(t, d.client, wire.PathJournal, d.upload(t, 2, 2), &a); e != nil; e = post(t, d.client, wire.PathJournal, d.upload(t, 2, 2), &a) {
		if n--; e.Kind != wire.KindBusy && e.Kind != wire.KindInternal || n < 0 {
			t.Fatalf("after the cut: %v", e)
		}
	}
	if c := w.count(t, "SELECT count(*) FROM claims"); c != 2 {
		t.Errorf("%d claims", c)
	}
}

func TestOpenRefusesAPostgresThatIsNotItsOwn(t *testing.T) {
	newer, foreign := server.Fresh(t), server.Fresh(t)
	for database, statements := range map[string][]string{
		newer: {"CREATE TABLE goose_db_version(id SERIAL PRIMARY KEY, version_id BIGINT, is_applied BOOLEAN, tstamp TIMESTAMP DEFAULT now())",
			"INSERT INTO goose_db_version(version_id, is_applied) VALUES(999, TRUE)"},
		foreign: {"CREATE TABLE goose(n INTEGER)", "DROP DATABASE IF EXISTS french", "CREATE DATABASE french TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'fr'"},
	} {
		db, err := sql.Open("pgx", database)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for want, database := range map[string]string{
		"newer program":          newer,
		"not central's database": foreign,
		"LOCALE 'C'":             strings.Replace(foreign, "/postgres?", "/french?", 1),
		"synchronous_commit=off": server.Fresh(t) + "&synchronous_commit=off",
	} {
		if _, err := Open(t.Context(), Options{Dir: t.TempDir(), Database: database}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPasswordOfTheDatabaseIsInNoError: the URL may hold one.
func TestPasswordOfTheDatabaseIsInNoError(t *testing.T) {
	for _, database := range []string{
		"postgres://central:s3cret-word@/x?host=" + t.TempDir(),
		"postgres://central:s3cret-word@host:port:more/x",
		"postgres://central:s3cret-word@/x?sslmode=nonsense",
	} {
		if _, err := Open(t.Context(), Options{Dir: t.TempDir(), Database: database}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}
