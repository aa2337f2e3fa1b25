package uplink

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/wire"
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

// begin runs an uplink with an identity, on a ledger in dir, by the net or by another way.
func begin(t *testing.T, dir string, id Identity, road *pipes, dial ...func(context.Context, string, string) (net.Conn, error)) *link {
	t.Helper()
	if len(dial) == 0 {
		dial = append(dial, road.Dial)
	}
	l := &link{fake: &fake{t: t}, net: road, blocks: make(chan struct{}, 100)}
	l.ledger = must(ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(dir, "ledger.db"), Terminal: id.Terminal, Sign: id.Sign,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }}))
	t.Cleanup(func() { _ = l.ledger.Close() })
	l.opt = Options{Identity: id, Ledger: l.ledger, Blocks: BlockStore{Dir: filepath.Join(dir, "manifests"), Quota: 1 << 30}, Dial: dial[0],
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

// TestCopyOfAnEnrolledCardIsFrozenByCentral: the token that it was made with is dead, both
// cards have the key, and central freezes the name with its reason before the two pay on.
func TestCopyOfAnEnrolledCardIsFrozenByCentral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, net, text := offline(t)
		shop, copied := t.TempDir(), t.TempDir()
		begin(t, shop, must(EnrolFromFile(FileOptions{Text: []byte(text), Dir: filepath.Join(shop, "identity")})), net)
		pass(time.Minute)
		if at := must(c.Terminal(t.Context(), "T-1")); at.State != central.Enrolled || at.Frozen != "" {
			t.Fatalf("the shop's own card: %+v", at)
		}
		for _, name := range []string{identityName, renewalName} {
			text := must(os.ReadFile(filepath.Join(shop, "identity", name)))
			if err := errors.Join(os.MkdirAll(filepath.Join(copied, "identity"), 0o700), os.WriteFile(filepath.Join(copied, "identity", name), text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		second := begin(t, copied, must(LoadIdentity(filepath.Join(copied, "identity"))), net)
		pass(time.Hour)
		at := must(c.Terminal(t.Context(), "T-1"))
		if at.Frozen != wire.StopTwoHeads || at.State != central.Suspended || at.Reason == "" {
			t.Errorf("central: frozen %q, %s, %q", at.Frozen, at.State, at.Reason)
		}
		if s := second.uplink.Status(); !s.Suspended() {
			t.Errorf("the copy: %+v", s)
		}
		third := begin(t, t.TempDir(), must(EnrolFromFile(FileOptions{Text: []byte(text), Dir: filepath.Join(t.TempDir(), "identity")})), net)
		pass(time.Minute)
		if s := third.uplink.Status(); !s.Suspended() {
			t.Errorf("a third by the used token: %+v", s)
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
