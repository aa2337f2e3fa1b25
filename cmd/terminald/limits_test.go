package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// office signs policies with two keys, and brings them to a terminal's folder.
type office struct {
	t       *testing.T
	dir     string
	signers []note.Signer
	public  []string
	day     string // of the trusted time, "" for none
	log     bytes.Buffer
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, dir: filepath.Join(t.TempDir(), "policies")}
	for i := range 2 {
		skey, vkey, err := note.GenerateKey(rand.Reader, fmt.Sprintf("lottery%d", i))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		o.signers, o.public = append(o.signers, signer), append(o.public, vkey)
	}
	return o
}

// start starts a terminal that asks for so many signatures.
func (o *office) start(signatures int) *limits {
	o.t.Helper()
	c := configs.Terminal{Data: filepath.Dir(o.dir), Policy: configs.Policy{Version: "configured", Currency: "EUR", ShopLimit: 5000, ClaimDays: 30}}
	l, err := newLimits(c, trust{sealKeys: o.public, signatures: signatures}, func() time.Time {
		t, _ := time.Parse("2006-01-02", o.day) // zero for none
		return t
	}, slog.New(slog.NewTextHandler(&o.log, nil)))
	if err != nil {
		o.t.Fatal(err)
	}
	return l
}

func issue(version, from, to string) policy.Policy {
	p := policy.Policy{Version: version, Currency: "EUR", ShopLimit: 30000, ClaimDays: 30}
	p.ValidFrom, _ = policy.ParseDate(from)
	p.ValidTo, _ = policy.ParseDate(to) // none for ""
	return p
}

func (o *office) sign(p policy.Policy, signers ...note.Signer) []byte {
	o.t.Helper()
	signed, err := note.Sign(&note.Note{Text: p.Text()}, signers...)
	if err != nil {
		o.t.Fatal(err)
	}
	return signed
}

func (o *office) write(name string, text []byte) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), text, 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// want looks at what a terminal pays by, and at the code of its fault.
func (o *office) want(l *limits, when, version, source, fault string) control.Limits {
	o.t.Helper()
	got := ""
	if f := l.fault(); f != nil {
		got = f.Code
	}
	shown, st := l.status()
	if p := l.inForce(); p.Version != version || shown != version || st.Source != source || got != fault {
		o.t.Errorf("%s: %q (status %q) from %q, fault %q; want %q from %q, fault %q\n%+v", when, p.Version, shown, st.Source, got, version, source, fault, st)
	}
	return st
}

func (o *office) rescan(l *limits) {
	o.t.Helper()
	if err := l.rescan(); err != nil {
		o.t.Fatal(err)
	}
}

func TestConfigurationHoldsUntilASignedPolicyBegins(t *testing.T) {
	o := newOffice(t)
	o.day = "2026-11-30"
	l := o.start(1)
	o.want(l, "nothing signed", "configured", fromConfiguration, "")
	if l.inForce().ShopLimit != 5000 {
		t.Errorf("%+v", l.inForce())
	}
	o.write("a.policy", o.sign(issue("2026-1", "2026-12-01", "2026-12-31"), o.signers[0]))
	o.want(l, "before anybody looked", "configured", fromConfiguration, "")
	o.rescan(l)
	st := o.want(l, "the day before", "configured", fromConfiguration, "")
	if len(st.Signed) != 1 || st.Signed[0].InForce || *st.Signed[0].ValidTo != "2026-12-31" || !strings.HasPrefix(st.Signed[0].SignedBy[0], "lottery0+") || st.Signed[0].File != "a.policy" {
		t.Errorf("%+v", st.Signed)
	}
	o.day = "2026-12-01"
	if st = o.want(l, "its first day", "2026-1", fromSigned, ""); !st.Signed[0].InForce {
		t.Errorf("%+v", st.Signed)
	}
	o.day = "2027-01-01"
	st = o.want(l, "it is over", "", fromNowhere, "R1")
	if !l.inForce().AboveShopLimit(1, "EUR") {
		t.Error("something is paid under no policy")
	}
	if want := []string{"gap: no policy holds from 2027-01-01 on"}; !slices.Equal(st.Findings, want) {
		t.Errorf("%q", st.Findings)
	}
	o.write("b.policy", o.sign(issue("2027-1", "2027-01-01", ""), o.signers[0]))
	o.rescan(l)
	o.want(l, "a newer one came", "2027-1", fromSigned, "")
	for _, said := range []string{`msg="policy accepted" file=a.policy version=2026-1`, `msg="policy in force" version=configured source=configuration`,
		`msg="policy in force" version=2026-1 source=signed`, `msg="no policy is in force, nothing is paid"`, `msg="policy in force" version=2027-1`} {
		if n := strings.Count(o.log.String(), said); n != 1 {
			t.Errorf("the log says %q %d times:\n%s", said, n, o.log.String())
		}
	}
}

func TestFileThatDoesNotVerifyIsNamedAndTheLastGoodOneStays(t *testing.T) {
	o := newOffice(t)
	l := o.start(1)
	good := o.sign(issue("2026-1", "2026-01-01", ""), o.signers[0])
	o.write("1.policy", good)
	o.rescan(l)
	o.want(l, "a good one", "2026-1", fromSigned, "")

	newer := o.sign(issue("2026-2", "2026-01-01", ""), o.signers[0])
	stranger, _, err := note.GenerateKey(rand.Reader, "lottery0")
	if err != nil {
		t.Fatal(err)
	}
	forger, err := note.NewSigner(stranger)
	if err != nil {
		t.Fatal(err)
	}
	other := issue("2026-1", "2026-01-01", "")
	other.ShopLimit = 100_000_000
	manifestText, err := note.Sign(&note.Note{Text: "grattoir manifest v1\n"}, o.signers[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "cut": newer[:len(newer)-20], "a limit changed": bytes.Replace(newer, []byte("30000"), []byte("90000"), 1),
		"another key of that name": o.sign(issue("2026-3", "2026-01-01", ""), forger), "another limit under a version that is here": o.sign(other, o.signers[0]),
		"another kind": manifestText, "endless": bytes.Repeat([]byte("x"), policy.MaxText+1),
	} {
		o.write("2.policy", bad)
		for range 2 {
			o.rescan(l)
		}
		st := o.want(l, name, "2026-1", fromSigned, "R2")
		if len(st.Unusable) != 1 || st.Unusable[0].File != "2.policy" || st.Unusable[0].Why == "" {
			t.Errorf("%s: %+v", name, st.Unusable)
		}
		if f := l.fault(); f == nil || !strings.Contains(f.Technician, "2.policy") {
			t.Errorf("%s: %+v", name, f)
		}
		if n := strings.Count(o.log.String(), `msg="policy ignored" file=2.policy`); n != 1 {
			t.Errorf("%s: the log names it %d times", name, n)
		}
		o.log.Reset()
		if err := os.Remove(filepath.Join(o.dir, "2.policy")); err != nil {
			t.Fatal(err)
		}
		o.rescan(l)
		o.want(l, name+", taken away", "2026-1", fromSigned, "")
	}

	// The good file itself goes bad, then away: what it said stays, until the next start.
	o.write("1.policy", []byte("rot"))
	o.rescan(l)
	o.want(l, "its file has rotted", "2026-1", fromSigned, "R2")
	if err := os.Remove(filepath.Join(o.dir, "1.policy")); err != nil {
		t.Fatal(err)
	}
	o.rescan(l)
	if st := o.want(l, "its file has gone", "2026-1", fromSigned, ""); st.Signed[0].File != "" {
		t.Errorf("%+v", st.Signed)
	}
	o.want(o.start(1), "the next start", "configured", fromConfiguration, "")
}

// TestPolicyThatCentralWithdrewCountsNoMore: at once, and one that a person brought stays
// until the next start.
func TestPolicyThatCentralWithdrewCountsNoMore(t *testing.T) {
	o := newOffice(t)
	o.day = "2026-11-30"
	l := o.start(1)
	sent := strings.Repeat("ab", 32) + ".policy"
	o.write("hand.policy", o.sign(issue("2026-1", "2026-01-01", ""), o.signers[0]))
	o.write(sent, o.sign(issue("2026-2", "2026-01-01", ""), o.signers[0]))
	o.rescan(l)
	o.want(l, "before", "2026-2", fromSigned, "")
	remove := func(name string) {
		t.Helper()
		if err := os.Remove(filepath.Join(o.dir, name)); err != nil {
			t.Fatal(err)
		}
		o.rescan(l)
	}
	remove(sent)
	o.want(l, "after it was withdrawn", "2026-1", fromSigned, "")
	remove("hand.policy")
	o.want(l, "after a person took the other one away", "2026-1", fromSigned, "")
}

func TestPolicyNeedsAsManySignaturesAsManifests(t *testing.T) {
	o := newOffice(t)
	l := o.start(2)
	p := issue("2026-1", "2026-01-01", "")
	o.write("1.policy", o.sign(p, o.signers[0]))
	o.rescan(l)
	o.want(l, "one of two", "configured", fromConfiguration, "R2")
	o.write("1.policy", o.sign(p, o.signers...))
	o.rescan(l)
	if st := o.want(l, "two of two", "2026-1", fromSigned, ""); len(st.Signed[0].SignedBy) != 2 {
		t.Errorf("%+v", st.Signed)
	}
}

func TestStartWithNoTimeSwitchesNoPolicy(t *testing.T) {
	o := newOffice(t)
	o.day = "2026-11-30"
	l := o.start(1)
	o.write("1.policy", o.sign(issue("2026-1", "2026-01-01", "2026-12-31"), o.signers[0]))
	o.write("2.policy", o.sign(issue("2027-1", "2027-01-01", ""), o.signers[0]))
	o.rescan(l)
	o.want(l, "with the time", "2026-1", fromSigned, "")

	o.day = ""
	l = o.start(1)
	o.want(l, "a start without it", "2026-1", fromSigned, "")
	o.day = "2027-01-01"
	o.want(l, "the time again", "2027-1", fromSigned, "")
	o.day = ""
	l = o.start(1)
	o.want(l, "another start", "2027-1", fromSigned, "")

	if err := os.WriteFile(filepath.Join(o.dir, markFile), bytes.Repeat([]byte("x"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	o.want(o.start(1), "a note that says nothing", "2027-1", fromSigned, "")
}

func TestFolderThatCannotBeReadStopsNothing(t *testing.T) {
	o := newOffice(t)
	if err := os.WriteFile(o.dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	l := o.start(1)
	o.want(l, "no folder", "configured", fromConfiguration, "")
	if err := l.rescan(); err == nil {
		t.Error("who asks to look again is not told")
	}
	if !strings.Contains(o.log.String(), `msg="reading the policies"`) {
		t.Errorf("%s", o.log.String())
	}
}

func TestFolderIsReadWithinBounds(t *testing.T) {
	o := newOffice(t)
	l := o.start(1)
	if err := syscall.Mkfifo(filepath.Join(o.dir, "pipe.policy"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range maxPolicies + 10 {
		o.write(fmt.Sprintf("x%03d.policy", i), nil)
	}
	o.rescan(l) // a pipe that was opened would never end
	st := o.want(l, "too much", "configured", fromConfiguration, "R2")
	if n := len(st.Unusable); n != maxPolicies+1 || st.Unusable[0].File != "pipe.policy" || !strings.Contains(st.Unusable[n-1].Why, "take old ones away") {
		t.Errorf("%d files: %+v", n, st.Unusable[n-1])
	}
}

// TestDaemonPaysByTheSignedPolicy brings policies to the running program.
func TestDaemonPaysByTheSignedPolicy(t *testing.T) {
	s, o := openShop(t), newOffice(t)
	o.dir = filepath.Join(s.Dir, "data", "policies")
	config := strings.Replace(shopConfig, `keys = ["lottery.pub"]`, `keys = ["lottery.pub", "office.pub"]`, 1)
	for name, text := range map[string]string{"terminald.toml": config, "office.pub": o.public[0]} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
	status := func(rescan bool) control.Status {
		t.Helper()
		ask := s.Client.Status
		if rescan {
			ask = s.Client.Rescan
		}
		st, err := ask(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := status(false); st.Policy != "t1" || st.Limits.Source != fromConfiguration || len(st.Limits.Signed) != 0 {
		t.Fatalf("%s %+v", st.Policy, st.Limits)
	}
	a := s.scan(t, s.codes["2000"][0])

	// The limit falls between the check and the payment.
	low := issue("2026-1", "2026-01-01", "")
	low.ShopLimit = 1999
	o.write("low.policy", o.sign(low, o.signers[0]))
	if st := status(true); st.Policy != "2026-1" || st.Limits.Source != fromSigned {
		t.Fatalf("%s %+v", st.Policy, st.Limits)
	}
	if a = s.pay(t, a); a.Verdict.Reason != validate.AboveShopLimit || a.Verdict.Policy != "2026-1" {
		t.Fatalf("%+v", a.Verdict)
	}
	o.write("high.policy", o.sign(issue("2026-2", "2026-01-01", ""), o.signers[0]))
	o.write("bad.policy", []byte("nothing"))
	if st := status(true); st.Policy != "2026-2" || len(st.Limits.Signed) != 2 || len(st.Limits.Unusable) != 1 || len(st.Limits.Findings) != 1 {
		t.Fatalf("%s %+v", st.Policy, st.Limits)
	}
	if a = s.pay(t, s.again(t, s.codes["2000"][0])); a.Receipt == nil || a.Verdict.Policy != "2026-2" {
		t.Fatalf("%+v", a)
	}
	s.printed(t)

	// A start goes on with it.
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	if st := status(false); st.Policy != "2026-2" || st.Limits.Source != fromSigned {
		t.Fatalf("%s %+v", st.Policy, st.Limits)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := s.journal(t); c.Claims != 1 {
		t.Fatalf("%+v", c)
	}
}
