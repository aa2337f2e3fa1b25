package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"grattoir/sync/wire"
)

// describe writes the descriptor of a block file beside the blocks and returns its name.
func (c *Central) describe(path string) (name string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p, err := wire.ReadPieces(f)
	if err != nil {
		return "", err
	}
	name = p.Name()
	return name, writeWhole(c.piecesPath(name), []byte(p.Text()), 0o644)
}

func (c *Central) piecesPath(name string) string {
	return filepath.Join(c.opt.Dir, "blocks", name+".pieces")
}

// describeAll gives a descriptor to the blocks that an earlier program published. One
// whose file cannot be read stays without: terminals that have it keep it, the others
// are told when they ask for it.
func (c *Central) describeAll(ctx context.Context) error {
	var sums []string
	err := eachRow(ctx, c.store.reader(), "SELECT sha256 FROM blocks WHERE pieces = ''", func(row scanner) error {
		var sum string
		err := row.Scan(&sum)
		sums = append(sums, sum)
		return err
	})
	for _, sum := range sums {
		name, failed := c.describe(c.blockPath(sum))
		if failed != nil {
			c.opt.Log.Error("a published block has no descriptor: publish its file again", "sha256", sum, "err", failed)
			continue
		}
		err = errors.Join(err, c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE blocks SET pieces = $1 WHERE sha256 = $2", name, sum)
			return err
		}))
	}
	return err
}

// servePieces gives a descriptor by its name. It never changes.
func (c *Central) servePieces(w http.ResponseWriter, r *http.Request, _ caller) {
	name := r.PathValue("sha256")
	if !isHash(name) {
		c.fail(w, r, wireError(wire.KindBadRequest, "want a descriptor's SHA-256 in 64 lower-case hexadecimal digits"))
		return
	}
	var n int
	err := c.store.reader().QueryRowContext(r.Context(), "SELECT count(*) FROM blocks WHERE pieces = $1", name).Scan(&n)
	if err == nil && n == 0 {
		err = wireError(wire.KindNotFound, "no descriptor %s is published", name)
	}
	var text []byte
	if err == nil {
		if text, err = os.ReadFile(c.piecesPath(name)); err != nil {
			err = fmt.Errorf("descriptor %s is listed and its file is gone: publish its block again: %w", name, err)
		}
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("ETag", `"`+name+`"`)
	_, _ = w.Write(text) // a terminal that left asks again
}
