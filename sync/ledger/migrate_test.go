package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// next is a step to a version after the present one.
func next(step ...string) [][]string { return append(slices.Clone(migrations), step) }

func aside(t testing.TB, path string) []string {
	t.Helper()
	list, err := filepath.Glob(path + ".v*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMigrationKeepsAWholeCopyThatTheOlderProgramOpens(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l := openTest(t, opt)
	age(t, l)
	if err := l.migrate(ctx, len(migrations), next("CREATE TABLE later(one INTEGER NOT NULL) STRICT", "INSERT INTO later(one) VALUES(1)")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, opt); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("the older program opened the newer file: %v", err)
	}
	list := aside(t, opt.Path)
	if len(list) != 1 {
		t.Fatalf("copies: %v", list)
	}
	if info, err := os.Stat(list[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.Rename(list[0], opt.Path); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
	checkAged(t, l)
	paysOn(t, l)
}

// TestFailedMigrationLeavesTheFileAsItWas: whatever a step breaks is found before the
// commit, and a terminal that tries again and again makes one copy.
func TestFailedMigrationLeavesTheFileAsItWas(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		step []string
		want error
	}{
		"a step that fails":         {[]string{"CREATE TABLE later(one INTEGER) STRICT", "INSERT INTO nowhere VALUES(1)"}, nil},
		"a claim lost":              {[]string{"DROP TRIGGER claims_kept", "DELETE FROM claims WHERE seq = 2", "CREATE TRIGGER claims_kept BEFORE DELETE ON claims BEGIN SELECT raise(ABORT, 'claims are never removed'); END"}, ErrDamaged},
		"a slip's amount":           {[]string{"UPDATE prints SET amount = 1 WHERE seq = 2"}, ErrDamaged},
		"a reference into the void": {[]string{"CREATE TABLE later(epoch INTEGER, seq INTEGER, FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq) DEFERRABLE INITIALLY DEFERRED) STRICT", "INSERT INTO later VALUES(7, 7)"}, ErrDamaged},
		"an index that lies":        {[]string{"CREATE INDEX later ON prints(amount)", "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = 'CREATE INDEX later ON prints(copies)' WHERE name = 'later'", "PRAGMA writable_schema = RESET"}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			l := openTest(t, options(t.TempDir()))
			age(t, l)
			for range 3 {
				err := l.migrate(ctx, len(migrations), next(c.step...))
				if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), "left at schema") {
					t.Fatal(err)
				}
				l = reopen(t, l)
			}
			if _, err := l.Verify(ctx); err != nil {
				t.Error(err)
			}
			checkAged(t, l)
			paysOn(t, l)
			if list := aside(t, l.opt.Path); len(list) != 1 {
				t.Errorf("copies: %v", list)
			}
		})
	}
}

func TestNothingIsMigratedWithoutACopy(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	age(t, l)
	if err := os.Mkdir(l.opt.Path+".copying", 0o700); err != nil { // no file can be made there
		t.Fatal(err)
	}
	err := l.migrate(ctx, len(migrations), next("CREATE TABLE later(one INTEGER) STRICT"))
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Fatal(err)
	}
	if _, err := l.Verify(ctx); err != nil { // among others, that the table is not there
		t.Error(err)
	}
}

// TestCopyIsNotOverwrittenByAnother: an older program may have paid on between two tries.
func TestCopyIsNotOverwrittenByAnother(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	age(t, l)
	first, err := l.copyAside(ctx, len(migrations))
	if err != nil {
		t.Fatal(err)
	}
	record(t, l, claim(t, 600))
	second, err := l.copyAside(ctx, len(migrations))
	if err != nil || first == second || len(aside(t, l.opt.Path)) != 2 {
		t.Fatalf("%s %s %v", first, second, err)
	}
}

func TestVerifyFindsATableOrTriggerThatWasAddedOrTakenAway(t *testing.T) {
	ctx := context.Background()
	for _, q := range []string{
		"DROP TRIGGER entries_kept",
		"CREATE TRIGGER thief AFTER INSERT ON entries BEGIN UPDATE prints SET state = 'printed'; END",
		"CREATE VIEW v AS SELECT 1",
		"CREATE INDEX i ON claims(seq)",
		"DROP TABLE attempts",
		"ALTER TABLE link ADD COLUMN more TEXT",
	} {
		l := openTest(t, options(t.TempDir()))
		record(t, l, claim(t, 1))
		if _, err := l.db.Exec(q); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Verify(ctx); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", q, err)
		}
	}
}
