package central

import (
	"database/sql"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// outside are forms that one of SQLite, PostgreSQL, CockroachDB, YugabyteDB and Citus
// does not have, or has in another way. Keywords are written in capitals: serial is a
// column of ours.
func outside() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"? as a value: SQLite's alone":                           regexp.MustCompile(`\?`),
		"FOR UPDATE: SQLite has none; an UPDATE that gives back": regexp.MustCompile(`(?i)\bFOR (UPDATE|SHARE)\b`),
		"SQLite's alone":                      regexp.MustCompile(`(?i)\b(INSERT OR|REPLACE INTO|rowid|json_each|zeroblob|instr|ifnull|GLOB|PRAGMA|AUTOINCREMENT)\b`),
		"PostgreSQL's alone":                  regexp.MustCompile(`(?i)(::|\bILIKE\b|\bUNNEST\b|\bDISTINCT ON\b|\bON CONSTRAINT\b|\bnow\(\)|\bnextval\b|\bMERGE INTO\b)`),
		"missing or different somewhere":      regexp.MustCompile(`\b(TRIGGER|LISTEN|NOTIFY|pg_advisory\w*|LOCK TABLE|EXCLUDE|DEFERRABLE|TEMP|TEMPORARY|SERIAL|BIGSERIAL|IDENTITY|SEQUENCE|REFERENCES|PREPARE TRANSACTION|COPY)\b`),
		"a conflict with no target":           regexp.MustCompile(`(?i)\bON CONFLICT (DO|ON)\b`),
		"a target that is no list of columns": regexp.MustCompile(`(?i)\bON CONFLICT\s*\([^)]*\(`),
	}
}

var (
	statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP)\b`)
	value     = regexp.MustCompile(`\$(\d+)`)
)

// badSQL says what is wrong with a statement, "" for nothing.
func badSQL(text string) string {
	for why, form := range outside() {
		if found := form.FindString(text); found != "" {
			return fmt.Sprintf("%s: %s", found, why)
		}
	}
	// The SQLite driver binds by first appearance.
	next := 1
	for _, m := range value.FindAllStringSubmatch(text, -1) {
		switch n, _ := strconv.Atoi(m[1]); {
		case n > next:
			return fmt.Sprintf("$%d appears before $%d", n, next)
		case n == next:
			next++
		}
	}
	return ""
}

// TestStatementsKeepToTheSharedSubset reads every statement of central and of its reports.
func TestStatementsKeepToTheSharedSubset(t *testing.T) {
	seen := 0
	for _, dir := range []string{".", "../report", "../console"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || file == "sqlite.go" || file == "postgres.go" {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && statement.MatchString(text) {
					seen++
					if why := badSQL(text); why != "" {
						t.Errorf("%v: %s\n%s", set.Position(lit.Pos()), why, text)
					}
				}
				return true
			})
		}
	}
	if seen < 60 {
		t.Errorf("%d statements found: they are written in another way than this test reads", seen)
	}
	steps, err := fs.Glob(schema, "schema/postgres/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range steps {
		text, err := schema.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- +goose NO TRANSACTION\n") {
			t.Errorf("%s: tables are changed outside transactions: begin with -- +goose NO TRANSACTION", path.Base(name))
		}
		for s := range strings.SplitSeq(regexp.MustCompile(`--.*`).ReplaceAllString(string(text), ""), ";") {
			if why := badSQL(s); why != "" {
				t.Errorf("%s: %s\n%s", path.Base(name), why, s)
			}
			if strings.Contains(s, "CREATE") && !strings.Contains(s, "IF NOT EXISTS") || strings.Contains(s, "INSERT") && !strings.Contains(s, "ON CONFLICT") {
				t.Errorf("%s: it cannot be run again after a cut\n%s", path.Base(name), s)
			}
		}
	}
}

func TestSubsetIsNoticed(t *testing.T) {
	for _, s := range []string{
		"SELECT 1 FROM x WHERE a = ?", "SELECT 1 FROM x WHERE a = $2 AND b = $1", "SELECT 1 FROM x FOR UPDATE", "INSERT INTO x VALUES($1) ON CONFLICT DO NOTHING",
		"INSERT OR IGNORE INTO x VALUES($1)", "INSERT INTO x VALUES($1::bytea)", "CREATE TABLE x(n BIGSERIAL)", "INSERT INTO x VALUES($1) ON CONFLICT (lower(a)) DO NOTHING",
	} {
		if badSQL(s) == "" {
			t.Errorf("taken: %s", s)
		}
	}
	if why := badSQL("INSERT INTO x(a, b) SELECT $1, $2 FROM y WHERE a = $1 ON CONFLICT(a) DO NOTHING"); why != "" {
		t.Error(why)
	}
}

// TestBothSchemasAreOne: the steps for SQLite and those for PostgreSQL end in the same
// tables, columns, keys and indexes, with the block first in every key of block data.
func TestBothSchemasAreOne(t *testing.T) {
	w := newWorldOn(t, server.Database(t, nil))
	cfg, err := pgx.ParseConfig(w.opt.Database)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	postgres := describe(t, db, `SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'NO', coalesce(c.column_default, ''),
			coalesce((SELECT array_position(i.indkey::int[], a.attnum::int) + 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
				WHERE i.indisprimary AND i.indrelid = to_regclass(c.table_name) AND a.attname = c.column_name AND a.attnum = ANY(i.indkey)), 0)
		FROM information_schema.columns c WHERE c.table_schema = current_schema()`,
		"SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'")
	lite := describe(t, newWorld(t).Reader(), `SELECT m.name, c.name, c.type, c."notnull", coalesce(c.dflt_value, ''), c.pk FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`,
		"SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
	for name := range maps.All(lite) {
		if strings.HasSuffix(name, ".block_id") && strings.Contains(lite[name], "required=true") && !strings.HasSuffix(lite[name], "key=1") {
			t.Errorf("%s: %s: block data has its block first in the key, by which a table is spread", name, lite[name])
		}
		if lite[name] != postgres[name] {
			t.Errorf("%s: SQLite %q, PostgreSQL %q", name, lite[name], postgres[name])
		}
		delete(postgres, name)
	}
	if len(postgres) > 0 || len(lite) < 100 {
		t.Errorf("of %d, PostgreSQL alone has %v", len(lite), slices.Sorted(maps.Keys(postgres)))
	}
}

// describe gives each column as "table.column" with its class, and each index.
func describe(t *testing.T, db *sql.DB, columns, indexes string) map[string]string {
	t.Helper()
	class := map[string]string{"integer": "number", "bigint": "number", "text": "text", "blob": "bytes", "bytea": "bytes"}
	shape := map[string]string{}
	rows, err := db.QueryContext(t.Context(), columns)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, column, kind, fallback string
		var required bool
		var key int
		if err := rows.Scan(&table, &column, &kind, &required, &fallback, &key); err != nil {
			t.Fatal(err)
		}
		if table != "goose_db_version" && table != "sqlite_sequence" {
			shape[table+"."+column] = fmt.Sprintf("%s required=%v default=%s key=%d", class[strings.ToLower(kind)], required, strings.TrimSuffix(fallback, "::text"), key)
		}
	}
	list, err := db.QueryContext(t.Context(), indexes)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		var name, text string
		if err := list.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		shape["index "+name] = strings.ReplaceAll(text[strings.LastIndex(text, "("):], " ", "")
	}
	return shape
}
