package uplink

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// limits publishes a set of policies in place of the one before, and gives their names.
func (c *fake) limits(texts ...string) (names []string) {
	c.update(func() {
		c.snapshot.Version++
		c.snapshot.Issued = c.now()
		c.snapshot.Policies = nil
		for _, text := range texts {
			sum := sha256.Sum256([]byte(text))
			name := hex.EncodeToString(sum[:])
			c.policies[name] = text
			c.snapshot.Policies = append(c.snapshot.Policies, wire.PolicyFile{SHA256: name, Size: int64(len(text))})
			names = append(names, name+policySuffix)
		}
	})
	return names
}

func takesPolicies(l *link) (told *int) {
	l.opt.PolicyDir = filepath.Join(filepath.Dir(l.opt.Blocks.Dir), "policies")
	told = new(int)
	l.opt.OnPolicies = func() { *told++ }
	return told
}

func (l *link) folder(t *testing.T, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(l.opt.PolicyDir)
	if err != nil && len(want) > 0 {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the folder has %v, want %v", got, want)
	}
}

func TestPoliciesComeAsAWholeSetBeforeTheSnapshotIsInForce(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		told := takesPolicies(l)
		if err := os.MkdirAll(l.opt.PolicyDir, 0o750); err != nil {
			t.Fatal(err)
		}
		byHand := filepath.Join(l.opt.PolicyDir, "2025-1.policy")
		if err := os.WriteFile(byHand, []byte("brought on a stick"), 0o600); err != nil {
			t.Fatal(err)
		}
		names := l.limits("policy one", "policy two")
		cut := true
		l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if cut && strings.HasSuffix(r.URL.Path, strings.TrimSuffix(names[1], policySuffix)) {
				_, _ = w.Write([]byte("policy tow"))
				return true
			}
			return false
		}
		l.start()
		pass(time.Second)
		l.folder(t, "2025-1.policy") // the first has come, and counts for nothing alone
		if f := l.fault(LaneFiles); *told != 0 || f.Code != CodeSignature {
			t.Fatalf("told %d times, fault %+v", *told, f)
		}
		l.inForce(0)
		l.update(func() { cut = false })
		pass(2 * time.Minute)
		l.folder(t, "2025-1.policy", names[0], names[1])
		l.inForce(1)
		third := l.limits("policy two", "policy three")
		pass(2 * time.Minute)
		l.folder(t, "2025-1.policy", third[0], third[1])
		if *told != 2 {
			t.Errorf("told %d times", *told)
		}
		if n := l.asked("GET " + wire.PathPolicies + strings.TrimSuffix(names[1], policySuffix)); n < 2 || l.asked("GET "+wire.PathPolicies+strings.TrimSuffix(third[1], policySuffix)) != 1 {
			t.Errorf("the second was asked for %d times", n)
		}
	})
}

func TestDamagedPolicyIsFetchedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		told := takesPolicies(l)
		names := l.limits("policy one")
		if err := os.MkdirAll(l.opt.PolicyDir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(l.opt.PolicyDir, names[0]), []byte("policy oen"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.start()
		pass(time.Second)
		if text, err := os.ReadFile(filepath.Join(l.opt.PolicyDir, names[0])); err != nil || string(text) != "policy one" || *told != 1 {
			t.Errorf("%q %v, told %d times", text, err, *told)
		}
	})
}

func TestTerminalThatTakesNoPoliciesFromCentralAsksForNone(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.limits("policy one")
		l.start()
		pass(time.Second)
		l.inForce(1)
		if n := l.asked("GET " + wire.PathPolicies); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}
