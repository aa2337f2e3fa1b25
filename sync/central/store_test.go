package central

import (
	"os"
	"path/filepath"
	"testing"

	"grattoir/sync/central/pgtest"
)

// server is this binary's PostgreSQL, started by the first test that wants it.
var server pgtest.Shared

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// stores are the databases that central's promises are kept on. Forced to SERIALIZABLE,
// PostgreSQL refuses every transaction that could not have run alone, as distributed
// databases do each day.
func stores() []struct {
	name     string
	database func(testing.TB) string
} {
	return []struct {
		name     string
		database func(testing.TB) string
	}{
		{"sqlite", func(testing.TB) string { return "" }},
		{"postgres", func(t testing.TB) string { return server.Database(t, nil) }},
		{"serializable", func(t testing.TB) string {
			return server.Database(t, map[string]string{"default_transaction_isolation": "serializable"})
		}},
	}
}

// onEachStore runs a test of the conformance suite: all that central promises of what it
// keeps, on each database, in a world of its own.
func onEachStore(t *testing.T, test func(*testing.T, *world)) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorldOn(t, s.database(t)))
		})
	}
}

// TestFolderKeepsToItsDatabase: a tool that names none finds the one of the first start,
// and nobody begins an empty one beside it.
func TestFolderKeepsToItsDatabase(t *testing.T) {
	dir, database := t.TempDir(), server.Fresh(t)
	other := filepath.Join(t.TempDir(), "other.db")
	open := func(dir, database string) (*Central, error) {
		c, err := Open(t.Context(), Options{Dir: dir, Database: database})
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return c, err
	}
	if found, err := Exists(dir); found || err != nil {
		t.Fatalf("an empty folder is a central's: %v %v", found, err)
	}
	if _, err := open(dir, "postgres:///nowhere?host="+t.TempDir()); err == nil {
		t.Fatal("a database that is not there was opened")
	}
	c, err := open(dir, database) // what was mistyped is not noted
	if err == nil {
		_, err = c.AddTerminal(t.Context(), "T-1")
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, err = open(dir, ""); err == nil {
		_, err = c.Terminal(t.Context(), "T-1")
	}
	if err != nil {
		t.Errorf("a tool that names no database: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "database")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the note: %v", err)
	}
	if found, err := Exists(dir); !found || err != nil {
		t.Errorf("%v %v", found, err)
	}
	_, err = open(dir, other)
	wantErr(t, err, ErrRefused)

	lite := t.TempDir()
	if _, err := open(lite, ""); err != nil {
		t.Fatal(err)
	}
	_, err = open(lite, database)
	wantErr(t, err, ErrRefused)
	if _, err := open(lite, filepath.Join(lite, "central.db")); err != nil {
		t.Errorf("the file it has, named: %v", err)
	}
	if _, err := open(t.TempDir(), "mysql://x"); err == nil {
		t.Error("mysql")
	}
	if _, err := open(t.TempDir(), other); err != nil {
		t.Error(err)
	} else if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
