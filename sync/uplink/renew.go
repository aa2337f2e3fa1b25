package uplink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readRenewal reads the key that renews after the end, "" where there is none. Its errors
// show nothing of it.
func readRenewal(dir string) (string, error) {
	path := filepath.Join(dir, renewalName)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile))
	if err == nil {
		_, err = parseKey(string(text))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(text), nil
}
