package uplink

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
)

// offline is a device with an enrolment file of a real central, and no network yet.
func offline(t *testing.T) (c *central.Central, net *pipes, text string) {
	t.Helper()
	c, err := central.Open(t.Context(), central.Options{Dir: filepath.Join(t.TempDir(), "central"), Hosts: []string{"central.test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	net = newPipes()
	serveReal(t, c, net)
	text, _, err = c.EnrolFile(t.Context(), "T-1", "https://central.test", 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return c, net, text
}

// begin runs an uplink with an identity, on a ledger in dir.
func begin(t *testing.T, dir string, id Identity, net *pipes) *link {
	t.Helper()
	l := &link{fake: &fake{t: t}, net: net, blocks: make(chan struct{}, 100)}
	l.ledger = must(ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(dir, "ledger.db"), Terminal: id.Terminal, Sign: id.Sign,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }}))
	t.Cleanup(func() { _ = l.ledger.Close() })
	l.opt = Options{Identity: id, Ledger: l.ledger, Blocks: BlockStore{Dir: filepath.Join(dir, "manifests"), Quota: 1 << 30}, Dial: net.Dial,
		OnBlocks: func() { l.blocks <- struct{}{} }}
	return l.start()
}

// TestDeviceEnrolsByAFileWithNoNetworkAndIsCertifiedWhenThereIsOne: the file has no key,
// and its code is gone from the device once it was used.
func TestDeviceEnrolsByAFileWithNoNetworkAndIsCertifiedWhenThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, net, text := offline(t)
		if strings.Contains(text, "PRIVATE") || strings.Contains(text, "BEGIN") {
			t.Fatal("a key is in the file")
		}
		dir := t.TempDir()
		folder := filepath.Join(dir, "identity")
		id, err := EnrolFromFile(FileOptions{Text: []byte(text), Dir: folder, Key: c.PublicKey()})
		if err != nil || !id.Waiting() || id.Issued().IsZero() {
			t.Fatalf("%v, waiting %v, issued %v", err, id.Waiting(), id.Issued())
		}
		if id, err = LoadIdentity(folder); err != nil || !id.Waiting() {
			t.Fatal(err)
		}
		net.cut(true)
		l := begin(t, dir, id, net)
		pass(time.Minute)
		l.pay(1)
		if f := l.fault(LaneEnrol); f.Code != CodeUnreachable {
			t.Fatalf("with no network: %+v", l.uplink.Status())
		}
		net.cut(false)
		pass(3 * time.Minute)
		s := l.uplink.Status()
		if len(s.Faults) != 0 || s.Unsent != 0 || s.Expires.IsZero() {
			t.Fatalf("with a network: %+v", s)
		}
		kept, err := os.ReadFile(filepath.Join(folder, identityName))
		if err != nil || strings.Contains(string(kept), `"code"`) {
			t.Errorf("the code is kept after its use: %v", err)
		}
		if id, err := LoadIdentity(folder); err != nil || id.Waiting() {
			t.Errorf("stored: %v", err)
		}
	})
}

// TestThiefOfAnEnrolmentFileIsSeen: whoever comes first has the name, and the other is
// refused, which stops its payments and shows.
func TestThiefOfAnEnrolmentFileIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, net, text := offline(t)
		thief, shop := t.TempDir(), t.TempDir()
		first := begin(t, thief, must(EnrolFromFile(FileOptions{Text: []byte(text), Dir: filepath.Join(thief, "identity")})), net)
		pass(time.Minute)
		second := begin(t, shop, must(EnrolFromFile(FileOptions{Text: []byte(text), Dir: filepath.Join(shop, "identity")})), net)
		pass(time.Minute)
		if s := first.uplink.Status(); s.Suspended() {
			t.Errorf("the first: %+v", s)
		}
		if s := second.uplink.Status(); !s.Suspended() || s.Refused != CodeForbidden {
			t.Errorf("the second: %+v", s)
		}
	})
}

func TestEnrolmentFileOfAnotherCentralOrChangedIsRefused(t *testing.T) {
	_, _, text := offline(t)
	other, _, _ := offline(t)
	for name, o := range map[string]FileOptions{
		"another central's key": {Text: []byte(text), Key: other.PublicKey()},
		"another name":          {Text: []byte(strings.Replace(text, "terminal T-1", "terminal T-2", 1))},
		"a blank more":          {Text: []byte(strings.Replace(text, "terminal T-1", "terminal  T-1", 1))},
		"no signature":          {Text: []byte(text[:strings.Index(text, "\n\n")+1])},
		"nothing":               {},
		"too much":              {Text: make([]byte, 1<<20)},
	} {
		o.Dir = filepath.Join(t.TempDir(), "identity")
		if _, err := EnrolFromFile(o); !errors.Is(err, ErrEnrolFile) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: a folder was made", name)
		}
	}
}
