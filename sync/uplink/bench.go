package uplink

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"grattoir/sync/wire"
)

// benchName is the newest bench record, in the identity's folder.
const benchName = "bench.json"

// KeepBench stores the record with which a terminal leaves the bench, signed with the key
// of the identity in dir. An Uplink that runs with it tells central with its next hello.
func KeepBench(dir string, n wire.BenchNote) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return WriteWhole(filepath.Join(dir, benchName), append(text, '\n'))
}

// LoadBench reads what KeepBench stored; os.ErrNotExist for none.
func LoadBench(dir string) (n wire.BenchNote, err error) {
	f, err := os.OpenFile(filepath.Join(dir, benchName), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not make it wait
	if err != nil {
		return n, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 3*wire.MaxBench))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err == nil {
		_, err = n.Open()
	}
	if err != nil {
		return n, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return n, nil
}

// benched adds the bench record to a hello until central has heard it, and returns its
// hash. After a restart it is told once more: central knows it by its hash.
func (u *Uplink) benched(h *wire.Hello) (hash string) {
	n, err := LoadBench(u.me().dir)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) && u.bench != err.Error() {
			u.opt.Log.Warn("the bench record is not told", "err", err)
			u.bench = err.Error() // once
		}
		return ""
	}
	sum := sha256.Sum256([]byte(n.Text))
	if hash = hex.EncodeToString(sum[:]); hash == u.bench {
		return ""
	}
	h.Bench = &n
	return hash
}
