package manifest

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
)

// maxValue bounds a value or a row that SQLite reads, in bytes: the largest true one is a
// header.
const maxValue = 2 * maxHeader

// file is a manifest's database: one connection, driven without database/sql, whose
// goroutines and copies would be most of a look-up's time. It is not for concurrent use.
type file struct{ conn *sqlite3.SQLiteConn }

// openFile opens a manifest read-only and immutable, with a small cache, no memory
// map (an I/O error of the card would be a SIGBUS), an untrusted schema, and an
// authorizer that lets nothing but reads of our three tables be prepared.
func openFile(path string) (*file, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dsn := (&url.URL{Scheme: "file", Path: abs, RawQuery: "mode=ro&immutable=1&_query_only=1&_cache_size=-64"}).String()
	c, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	f := &file{c.(*sqlite3.SQLiteConn)}
	for _, pragma := range []string{"trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY"} {
		if _, err := f.conn.Exec("PRAGMA "+pragma, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", pragma, err), f.close())
		}
	}
	f.conn.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, maxValue) // a hostile file's blobs stay on the disk
	f.conn.RegisterAuthorizer(authorize)
	return f, nil
}

func (f *file) close() error { return f.conn.Close() }

func (f *file) prepare(query string) (*sqlite3.SQLiteStmt, error) {
	s, err := f.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return s.(*sqlite3.SQLiteStmt), nil
}

// each runs a query and hands its rows on; a row's values are good until the next one.
func (f *file) each(query string, args []driver.Value, use func(row []driver.Value) error) error {
	s, err := f.prepare(query)
	if err != nil {
		return err
	}
	return errors.Join(every(s, args, use), s.Close())
}

// row runs a query of exactly one row.
func (f *file) row(query string, args []driver.Value, into ...any) error {
	s, err := f.prepare(query)
	if err != nil {
		return err
	}
	return errors.Join(one(s, args, into...), s.Close())
}

func every(s *sqlite3.SQLiteStmt, args []driver.Value, use func(row []driver.Value) error) error {
	rows, err := s.Query(args)
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err = rows.Next(row)
		if errors.Is(err, io.EOF) {
			err = nil
			break
		}
		if err == nil {
			err = use(row)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, rows.Close())
}

func one(s *sqlite3.SQLiteStmt, args []driver.Value, into ...any) error {
	found := 0
	err := every(s, args, func(row []driver.Value) error {
		found++
		return scan(row, into...)
	})
	if err == nil && found != 1 {
		err = fmt.Errorf("%d rows, want one", found)
	}
	return err
}

// scan copies a row into int64, string, []byte and Hash, strictly: a value of another type is
// a file that nobody sealed.
func scan(row []driver.Value, into ...any) error {
	if len(row) != len(into) {
		return fmt.Errorf("%d columns, want %d", len(row), len(into))
	}
	for i, v := range row {
		ok := false
		switch to := into[i].(type) {
		case *int64:
			*to, ok = v.(int64)
		case *string:
			*to, ok = v.(string)
		case *Hash:
			var raw []byte
			if raw, ok = v.([]byte); ok && len(raw) == len(to) {
				copy(to[:], raw)
			} else if ok {
				return fmt.Errorf("column %d has %d bytes, want %d", i+1, len(raw), len(to))
			}
		case *[]byte:
			switch v := v.(type) {
			case []byte:
				*to, ok = v, true // the driver makes each row its own
			case string:
				*to, ok = []byte(v), true
			}
		}
		if !ok {
			return fmt.Errorf("column %d holds a %T", i+1, v)
		}
	}
	return nil
}

func authorize(action int, arg1, arg2, _ string) int {
	switch action {
	case sqlite3.SQLITE_SELECT:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		switch arg1 {
		case "header", "chunks", "leaves", "sqlite_master", "sqlite_schema":
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_FUNCTION:
		switch arg2 {
		case "count", "max", "min", "length", "substr", "coalesce":
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_PRAGMA:
		if arg1 == "application_id" && arg2 == "" {
			return sqlite3.SQLITE_OK
		}
	}
	return sqlite3.SQLITE_DENY
}
