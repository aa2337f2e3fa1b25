package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/sim"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/proof"
)

// slipBench is a terminal on its own as far as its slips' key is concerned.
type slipBench struct {
	configs.Terminal
	log bytes.Buffer
}

func newSlipBench(t *testing.T) *slipBench {
	return &slipBench{Terminal: configs.Terminal{Name: "T-1", StandAlone: true, Data: t.TempDir()}}
}

// sign starts the signer and signs a slip.
func (b *slipBench) sign() (string, error) {
	return slipSigner(b.Terminal, uplink.Identity{}, slog.New(slog.NewTextHandler(&b.log, nil)))(validate.Receipt{Terminal: b.Name, Number: validate.EntryNumber{Epoch: 1, Seq: 1},
		Hash: strings.Repeat("0a", 32), Claim: validate.Claim{Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{GameCode: "00399", Pack: "0000001", Ticket: "000"}}})
}

func mustSign(t *testing.T, b *slipBench) proof.Code {
	t.Helper()
	text, err := b.sign()
	if err != nil {
		t.Fatal(err)
	}
	c, err := proof.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func published(t *testing.T, path string) proof.Key {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := proof.ParseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSlipKeyIsMadeOnceAndPublished(t *testing.T) {
	b := newSlipBench(t)
	first := mustSign(t, b)
	key := published(t, b.SlipPublic())
	if err := first.Verify(key); err != nil {
		t.Error(err)
	}
	for path, mode := range map[string]os.FileMode{b.SlipKey(): 0o600, b.SlipPublic(): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, mode)
		}
	}
	if err := mustSign(t, b).Verify(key); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(b.Data, "*")); err != nil || len(left) != 2 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	if b.log.Len() > 0 {
		t.Errorf("log:\n%s", &b.log)
	}
}

// TestEarlierSlipKeyIsKeptBesideANewOne: the slips of its time are proven by it alone.
func TestEarlierSlipKeyIsKeptBesideANewOne(t *testing.T) {
	b := newSlipBench(t)
	before := mustSign(t, b)
	earlier := published(t, b.SlipPublic())
	if err := os.Remove(b.SlipKey()); err != nil {
		t.Fatal(err)
	}
	after := mustSign(t, b)
	if err := after.Verify(published(t, b.SlipPublic())); err != nil {
		t.Error(err)
	}
	if err := before.Verify(published(t, filepath.Join(b.Data, "slip-"+earlier.Fingerprint()+".pub"))); err != nil {
		t.Error(err)
	}
	if !strings.Contains(b.log.String(), "another key") {
		t.Errorf("nobody is told:\n%s", &b.log)
	}
}

func TestLostPublicKeyIsPublishedAgain(t *testing.T) {
	b := newSlipBench(t)
	c := mustSign(t, b)
	for _, content := range []string{"", "half a ke"} {
		if err := os.WriteFile(b.SlipPublic(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		mustSign(t, b)
		if err := c.Verify(published(t, b.SlipPublic())); err != nil {
			t.Errorf("over %q: %v", content, err)
		}
	}
}

// TestUnusableSlipKeyIsNamedAndLeftAlone: a new one in its place would make every earlier
// slip unprovable for want of a chmod.
func TestUnusableSlipKeyIsNamedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *slipBench) error
		want  string
	}{
		"open to others": {func(b *slipBench) error { return os.Chmod(b.SlipKey(), 0o640) }, "chmod 600"},
		"cut":            {func(b *slipBench) error { return os.Truncate(b.SlipKey(), 60) }, "holds no P-256 key"},
		"empty":          {func(b *slipBench) error { return os.Truncate(b.SlipKey(), 0) }, "holds no P-256 key"},
		"public":         {func(b *slipBench) error { return copyFile(b.SlipPublic(), b.SlipKey()) }, "holds no P-256 key"},
		"large":          {func(b *slipBench) error { return os.WriteFile(b.SlipKey(), make([]byte, maxSlipKey+1), 0o600) }, "another kind of file"},
	} {
		b := newSlipBench(t)
		mustSign(t, b)
		if err := c.spoil(b); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(b.SlipKey())
		if err != nil {
			t.Fatal(err)
		}
		public := published(t, b.SlipPublic())
		if code, err := b.sign(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, code, err)
		}
		if !strings.Contains(b.log.String(), c.want) || strings.Contains(b.log.String(), "PRIVATE") {
			t.Errorf("%s: log:\n%s", name, &b.log)
		}
		if after, err := os.ReadFile(b.SlipKey()); err != nil || !bytes.Equal(after, before) || published(t, b.SlipPublic()).Fingerprint() != public.Fingerprint() {
			t.Errorf("%s: the files have changed, %v", name, err)
		}
	}
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, text, 0o600))
}

// TestNameThatNoCodeCanHoldIsSaidAtTheStart: the terminal works on, its slips bare.
func TestNameThatNoCodeCanHoldIsSaidAtTheStart(t *testing.T) {
	b := newSlipBench(t)
	b.Name = "Périgueux"
	if code, err := b.sign(); !errors.Is(err, proof.ErrKey) {
		t.Errorf("%q, %v", code, err)
	}
	if !strings.Contains(b.log.String(), "Périgueux") {
		t.Errorf("log:\n%s", &b.log)
	}
}

// withDrawnCodes gives the shop a printer that draws codes itself, so that the paper
// tells what is in them.
func withDrawnCodes(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "terminald.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("epson-tm-t20"), []byte("epson-tm-t88"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// slipCodes are those on the whole slips of entry 1-000001 that came out, and how many of
// them are DUPLICATA.
func slipCodes(t *testing.T, slips []sim.Slip) (codes []proof.Code, duplicata int) {
	t.Helper()
	for _, slip := range slips {
		text := slip.Text()
		if !strings.Contains(text, "Conservez ce reçu") { // the torn rest of a slip that was cut off
			continue
		}
		if strings.Contains(text, "DUPLICATA") {
			duplicata++
		}
		drawn := 0
		for _, l := range slip.Lines {
			if l.QR == "" {
				continue
			}
			c, err := proof.Parse(l.QR)
			if err != nil {
				t.Fatalf("%q: %v", l.QR, err)
			}
			codes, drawn = append(codes, c), drawn+1
		}
		if drawn != 1 {
			t.Errorf("a slip with %d codes:\n%s", drawn, text)
		}
	}
	return codes, duplicata
}

// TestSlipsProveThemselvesAcrossAPowerCut kills the real program around a slip, starts it
// again and asks for one more copy: every slip that came out, original or DUPLICATA,
// is proven by the key that was published before the cut.
func TestSlipsProveThemselvesAcrossAPowerCut(t *testing.T) {
	for _, step := range []string{"recorded", "sending", "sent"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			withDrawnCodes(t, s.Dir)
			s.start(t, "GRATTOIR_CRASH="+step)
			ctx := deadline(t)
			key := published(t, filepath.Join(s.Dir, "data", "slip.pub"))
			if a, err := s.Scan(ctx, s.codes["2000"][0].Digits()); err == nil {
				_, _ = s.Client.Pay(ctx, a.ID, true) // it may be gone before it answers
			}
			if err := s.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			r := s.printed(t)
			if _, err := s.Client.Reprint(ctx, r.Number); err != nil {
				t.Fatal(err)
			}
			s.printed(t)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			codes, duplicata := slipCodes(t, s.Paper.Slips())
			if len(codes) < 2 || duplicata < 1 {
				t.Fatalf("%d codes, %d of DUPLICATA, on:\n%s", len(codes), duplicata, s.Paper.Text())
			}
			want := claimOf(t, s)
			for _, c := range codes {
				if err := c.Verify(key); err != nil || c.Statement != want {
					t.Errorf("%v: %v, want %+v", c, err, want)
				}
			}
		})
	}
}

// claimOf is the statement of the stopped terminal's first claim, from its ledger.
func claimOf(t *testing.T, s *shop) proof.Statement {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(s.Dir, "data", "ledger.db"), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Receipt(t.Context(), validate.EntryNumber{Epoch: 1, Seq: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The hash as another program makes it, from the journal's first line.
	err = l.Lines(t.Context(), 1, 0, func(seq int64, line []byte) error {
		if seq == 1 {
			r.Hash = fmt.Sprintf("%x", sha256.Sum256(line))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := proof.Of(r)
	if err != nil || !want.Demonstration {
		t.Fatalf("%+v, %v: want a demonstration's", want, err)
	}
	return want
}

// TestSlipKeyThatIsUnreadableStopsNoSlip runs the real program with a damaged key: it
// pays, and the slip comes out without its code.
func TestSlipKeyThatIsUnreadableStopsNoSlip(t *testing.T) {
	s := openShop(t)
	withDrawnCodes(t, s.Dir)
	if err := os.WriteFile(filepath.Join(s.Dir, "data", "slip.key"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	if p := s.pay(t, s.scan(t, s.codes["2000"][0])); p.Receipt == nil {
		t.Fatalf("%+v", p)
	}
	slip, err := s.Paper.Next(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if text := slip.Text(); !strings.Contains(text, "1-000001") || strings.Contains(text, "[QR") || strings.Contains(text, "contrôle") {
		t.Errorf("the slip:\n%s", text)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(s.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log, []byte("slip.key holds no P-256 key")) || !bytes.Contains(log, []byte("the slip has no control code")) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestLinkedTerminalsSlipIsProvenByTheKeyThatCentralPublishes: the device key signs, and
// nothing of the terminal is needed to check it.
func TestLinkedTerminalsSlipIsProvenByTheKeyThatCentralPublishes(t *testing.T) {
	l := openLinked(t)
	withDrawnCodes(t, l.Dir)
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	if p := l.pay(t, l.again(t, l.codes["2000"][0])); p.Receipt == nil {
		t.Fatalf("%+v", p)
	}
	l.printed(t)
	file := filepath.Join(t.TempDir(), "T-1.pem")
	var answer struct{ Fingerprint string }
	l.run(t, &answer, "terminal", "key", "T-1", "--out", file)
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	key := published(t, file)
	codes, _ := slipCodes(t, l.Paper.Slips())
	if len(codes) != 1 || codes[0].Verify(key) != nil || codes[0].Statement != claimOf(t, l.shop) {
		t.Errorf("%v is not proven by central's key", codes)
	}
	if own := published(t, filepath.Join(l.Dir, "data", "slip.pub")); own.Fingerprint() != key.Fingerprint() || answer.Fingerprint != key.Fingerprint() {
		t.Errorf("the terminal publishes %s, central %s (%s)", own.Fingerprint(), key.Fingerprint(), answer.Fingerprint)
	}
	if _, err := os.Stat(filepath.Join(l.Dir, "data", "slip.key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a linked terminal has a key of its own: %v", err)
	}
}
