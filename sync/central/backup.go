package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
)

// A backup is a folder: all tables of one moment in a SQLite file, whichever database they
// lie in, the keys, the blocks and whatever else is in central's folder, and a list of these
// files with their hashes, written last. It is restored into either kind of database.

const (
	backupList   = "backup.json"
	backupTables = "central.db"
	backupFormat = 1

	// After a restore numbers go on above all that may have been given since the backup: a
	// terminal steps over a feed item below its cursor, and refuses a lower snapshot.
	feedJump     = 1_000_000_000
	snapshotJump = 1_000_000
)

// Backed is what a backup holds.
type Backed struct {
	Format  int          `json:"format"`
	Central string       `json:"central"` // its id
	Made    time.Time    `json:"made"`
	Files   []BackedFile `json:"files"`
}

// BackedFile is a file of a backup.
type BackedFile struct {
	Path   string `json:"path"` // below the folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Backup copies central into a new folder, while it serves. The tables are copied first:
// files that they name are never removed before them. It holds central's private keys.
func (c *Central) Backup(ctx context.Context, dir string) (Backed, error) {
	b := Backed{Format: backupFormat, Central: c.id, Made: c.opt.Now().UTC()}
	if err := emptyFolder(dir); err != nil {
		return b, fmt.Errorf("backup: %w", err)
	}
	tables := filepath.Join(dir, backupTables)
	if err := c.store.copyTo(ctx, tables); err != nil {
		return b, fmt.Errorf("backup: tables: %w", err)
	}
	if err := os.Chmod(tables, 0o600); err != nil {
		return b, err
	}
	file, err := describeFile(dir, backupTables)
	if err != nil {
		return b, err
	}
	b.Files = append(b.Files, file)
	err = filepath.WalkDir(c.opt.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.opt.Dir, path)
		if err != nil || !e.Type().IsRegular() || notBackedUp(rel) {
			return err
		}
		if err := copyFile(path, filepath.Join(dir, rel)); err != nil {
			return err
		}
		file, err := describeFile(dir, rel)
		b.Files = append(b.Files, file)
		return err
	})
	if err != nil {
		return b, fmt.Errorf("backup: %w", err)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return b, err
	}
	return b, writeWhole(filepath.Join(dir, backupList), append(text, '\n'), 0o600)
}

// notBackedUp are the files that belong to this place, or are copied in another way.
func notBackedUp(rel string) bool {
	base := filepath.Base(rel)
	return rel == "database" || strings.HasPrefix(rel, "central.db") || strings.HasPrefix(base, ".new-") || strings.HasSuffix(base, ".lock")
}

func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s: %w: it is not empty, name a new folder", dir, ErrRefused)
	}
	return err
}

// copyFile copies a file with its mode and makes it durable.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func describeFile(dir, rel string) (BackedFile, error) {
	f, err := os.Open(filepath.Join(dir, rel))
	if err != nil {
		return BackedFile{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return BackedFile{Path: filepath.ToSlash(rel), Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// ReadBackup reads a backup's list and holds every file against it. The error says which
// file is not as it was.
func ReadBackup(dir string) (Backed, error) {
	var b Backed
	text, err := os.ReadFile(filepath.Join(dir, backupList))
	if err != nil {
		return b, fmt.Errorf("backup %s: %w: it is no backup, or one that was cut", dir, err)
	}
	if err := json.Unmarshal(text, &b); err != nil || b.Format != backupFormat {
		return b, fmt.Errorf("backup %s: format %d, this program knows %d: %w", dir, b.Format, backupFormat, errors.Join(err, ErrRefused))
	}
	for _, want := range b.Files {
		if !filepath.IsLocal(filepath.FromSlash(want.Path)) {
			return b, fmt.Errorf("backup %s: %w: a file %.80q", dir, ErrRefused, want.Path)
		}
		got, err := describeFile(dir, filepath.FromSlash(want.Path))
		if err != nil {
			return b, fmt.Errorf("backup %s: %w", dir, err)
		}
		if got != want {
			return b, fmt.Errorf("backup %s: %w: %s is not as it was when the backup was made", dir, ErrRefused, want.Path)
		}
	}
	return b, nil
}

// Restore makes central's folder, and its tables in the database of the options, from a
// backup; both must be empty. Terminals send again what was acknowledged since the backup,
// and central notices what it lost. Another central on the same tables or with the same
// keys must be off for good. Roster says that no terminal was enrolled since the backup:
// then central knows by itself when all were heard, see AllowClaims.
func Restore(ctx context.Context, from string, opt Options, roster bool) (_ Backed, err error) {
	opt = withDefaults(opt)
	b, err := ReadBackup(from)
	if err != nil {
		return b, err
	}
	if err := emptyFolder(opt.Dir); err != nil {
		return b, fmt.Errorf("restore: %w", err)
	}
	for _, f := range b.Files {
		if rel := filepath.FromSlash(f.Path); rel != backupTables && rel != idFile {
			if err := copyFile(filepath.Join(from, rel), filepath.Join(opt.Dir, rel)); err != nil {
				return b, fmt.Errorf("restore: %w", err)
			}
		}
	}
	if opt.Database == "" {
		opt.Database = filepath.Join(opt.Dir, "central.db")
	}
	if err := restoreTables(ctx, filepath.Join(from, backupTables), opt, b, roster); err != nil {
		return b, fmt.Errorf("restore: tables: %w", err)
	}
	if isPostgres(opt.Database) {
		if err := writeWhole(notePath(opt), []byte(opt.Database+"\n"), 0o600); err != nil {
			return b, err
		}
	}
	// The id comes last: without it the folder is not taken for a whole one.
	return b, writeWhole(filepath.Join(opt.Dir, idFile), []byte(b.Central+"\n"), 0o600)
}

// restoreTables fills an empty database, in one transaction, and lets its numbers go on
// above those that may have been given since.
func restoreTables(ctx context.Context, from string, opt Options, b Backed, roster bool) (err error) {
	source, err := openImmutable(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	into, err := openStore(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	tables, err := tablesOf(ctx, source)
	if err != nil {
		return err
	}
	read, err := source.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = read.Rollback() }()
	return into.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var used int
		if err := tx.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM terminals) + (SELECT count(*) FROM entries) + (SELECT count(*) FROM centrals)").Scan(&used); err != nil {
			return err
		}
		if used > 0 {
			return fmt.Errorf("%w: the database is not empty", ErrRefused)
		}
		if err := copyTables(ctx, read, tx, tables); err != nil {
			return err
		}
		// Whoever was signed in then may have been suspended since.
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions"); err != nil {
			return err
		}
		for c, jump := range map[counter]int64{feedItems: feedJump, snapshotsIssued: snapshotJump} {
			if _, err := tx.ExecContext(ctx, "UPDATE counters SET value = value + $1 WHERE name = $2", jump, c); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO restores(at, made, feed, roster) VALUES($1, $2, (SELECT coalesce(max(seq), 0) FROM feed), $3)",
			wire.FormatTime(opt.Now()), wire.FormatTime(b.Made), asNumber(roster))
		return err
	})
}

// copyTables copies all rows of tables that both have, in place of those that migrations
// made.
func copyTables(ctx context.Context, from, into *sql.Tx, tables map[string][]string) error {
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if err := copyTable(ctx, from, into, table, tables[table]); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return nil
}

func copyTable(ctx context.Context, from, into *sql.Tx, table string, columns []string) error {
	if _, err := into.ExecContext(ctx, "DELETE FROM "+table); err != nil {
		return err
	}
	marks := make([]string, len(columns))
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for i := range columns {
		marks[i], places[i] = fmt.Sprintf("$%d", i+1), &values[i]
	}
	list := strings.Join(columns, ", ")
	put, err := into.PrepareContext(ctx, "INSERT INTO "+table+"("+list+") VALUES("+strings.Join(marks, ", ")+")")
	if err != nil {
		return err
	}
	defer put.Close()
	rows, err := from.QueryContext(ctx, "SELECT "+list+" FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if _, err := put.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	return rows.Err()
}
