package uplink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// ErrPolicy means a policy file that is not what the signed snapshot lists.
var ErrPolicy = errors.New("the policy is not the one that central signed for")

// policySuffix ends the names of signed policies. Those of the snapshot are named by
// their hash; others were brought by hand and are never touched.
const policySuffix = ".policy"

// fetchPolicies brings the folder of policies to what the snapshot lists. Nothing is
// written before every file that lacks is here and is what the snapshot says, and nobody
// is told before all are in the folder: a terminal never pays by half of a set. Whether a
// policy's own signatures are good, whoever reads the folder looks at.
func (f *files) fetchPolicies(ctx context.Context, s *wire.Snapshot) error {
	dir := f.opt.PolicyDir
	if dir == "" {
		return nil
	}
	listed, fetched := map[string]bool{}, map[string][]byte{}
	for _, p := range s.Policies {
		listed[p.SHA256+policySuffix] = true
		if f.hasPolicy(p) {
			continue
		}
		text, err := f.client().read(ctx, requestTimeout, http.MethodGet, wire.PathPolicies+p.SHA256, nil)
		if err != nil {
			return err
		}
		if err := isPolicy(text, p); err != nil {
			return fmt.Errorf("policy %.8s: %w", p.SHA256, err)
		}
		fetched[p.SHA256] = text
	}
	gone, err := f.unlisted(listed)
	if err != nil || len(fetched)+len(gone) == 0 {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	for name, text := range fetched {
		if err := WriteWhole(filepath.Join(dir, name+policySuffix), text); err != nil {
			return fmt.Errorf("%w: policy %.8s: %w", ErrStore, name, err)
		}
		f.opt.Log.Info("policy", "sha256", name)
	}
	for _, name := range gone {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: policy %.8s: %w", ErrStore, name, err)
		}
	}
	f.opt.OnPolicies()
	return nil
}

func isPolicy(text []byte, p wire.PolicyFile) error {
	sum := sha256.Sum256(text)
	if int64(len(text)) != p.Size || p.Size > policy.MaxText || hex.EncodeToString(sum[:]) != p.SHA256 {
		return fmt.Errorf("%w: %d bytes with SHA-256 %.8x, listed with %d", ErrPolicy, len(text), sum, p.Size)
	}
	return nil
}

// hasPolicy tells whether the file is in the folder, and whole.
func (f *files) hasPolicy(p wire.PolicyFile) bool {
	path := filepath.Join(f.opt.PolicyDir, p.SHA256+policySuffix)
	if info, err := os.Stat(path); err != nil || info.Size() != p.Size {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && isPolicy(text, p) == nil
}

// unlisted are files of earlier snapshots that this one does not list.
func (f *files) unlisted(listed map[string]bool) ([]string, error) {
	entries, err := os.ReadDir(f.opt.PolicyDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	var list []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), policySuffix); ok && IsBlockName(name) && !listed[e.Name()] {
			list = append(list, e.Name())
		}
	}
	return list, nil
}
