package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/counter"
	"grattoir/device/control"
	"grattoir/device/sim"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/ticket"
)

// program builds terminald once, with crash points and, where this test has it, the
// race detector.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "terminald-test-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "terminald")
	args := []string{"build", "-tags", "crashpoints", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

var tiers = []manifest.Tier{{Count: 2, Amount: 200000}, {Count: 60, Amount: 2000}}

// shop is a counter with a sealed block, and every code of it by prize.
type shop struct {
	*counter.Counter
	codes map[string][]ticket.Code
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

const shopConfig = `name = "T-1"
data = "data"
socket = "terminald.sock"
keys = ["lottery.pub"]
stand_alone = true
accept_scaled = true
reserve_mb = 1
shop.name = "Tabac"
screen.listen = "127.0.0.1:0"
scanner.path = "scanner"
[printer]
path = "printer"
baud = 115200
profile = "epson-tm-t20"
[policy]
version = "t1"
currency = "EUR"
shop_limit_minor = 30000
claim_days = 30
`

func openShop(t *testing.T) *shop {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &shop{codes: sealBlock(t, dir)}
	if err := os.WriteFile(filepath.Join(dir, "terminald.toml"), []byte(shopConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Counter, err = counter.Open(dir, path, sim.PrinterOptions{Columns: 48}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(s.LogPath())
			t.Logf("terminald's log:\n%s", log)
		}
		s.Close()
	})
	return s
}

func sealBlock(t *testing.T, dir string) map[string][]ticket.Code {
	t.Helper()
	return sealTickets(t, dir, 600, tiers)
}

// sealTickets seals a block of packs of 60 tickets and gives every code of it by prize.
func sealTickets(t *testing.T, dir string, tickets int64, tiers []manifest.Tier) map[string][]ticket.Code {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	var csv bytes.Buffer
	sample := seal.Sample{Layout: ticket.G40(), GameCode: "399", Tickets: tickets, FirstPack: 1, PackSize: 60, Tiers: tiers}
	if err := sample.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	codes := map[string][]ticket.Code{}
	for line := range strings.Lines(csv.String()) {
		digits, prize, _ := strings.Cut(strings.TrimSpace(line), ",")
		if c, err := ticket.Parse(digits, 0, ticket.Shipped()); err == nil {
			codes[prize] = append(codes[prize], c)
		}
	}
	blocks := filepath.Join(dir, "data", "manifests")
	if err := os.MkdirAll(blocks, 0o700); err != nil {
		t.Fatal(err)
	}
	order := seal.Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000, Layout: ticket.G40(), Signer: signer,
		Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}
	if _, err := seal.Seal(context.Background(), &csv, order, filepath.Join(blocks, "b.manifest")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "lottery.pub"), []byte(vkey), 0o600), os.WriteFile(filepath.Join(dir, "lottery.key"), []byte(skey+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return codes
}

func (s *shop) start(t *testing.T, env ...string) {
	t.Helper()
	if err := s.Start(deadline(t), env...); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) scan(t *testing.T, c ticket.Code) control.Answer {
	t.Helper()
	a, err := s.Scan(deadline(t), c.Digits())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// again shows a code to the counter over the socket: the scanner's driver takes the
// same code within 1.5 s for one scan.
func (s *shop) again(t *testing.T, c ticket.Code) control.Answer {
	t.Helper()
	a, err := s.Client.Check(deadline(t), c.Digits(), false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *shop) pay(t *testing.T, a control.Answer) control.Answer {
	t.Helper()
	a, err := s.Client.Pay(deadline(t), a.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// printed waits until the newest claim's slip has reached the level printed.
func (s *shop) printed(t *testing.T) control.Receipt {
	t.Helper()
	ctx := deadline(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := s.Client.Last(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 && list[0].Print == validate.Printed {
			return list[0]
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the slip is not out: %+v", list)
		}
	}
}

// journal is the stopped terminal's chain, verified.
func (s *shop) journal(t *testing.T) ledger.Check {
	t.Helper()
	l, err := ledger.Open(context.Background(), ledger.Options{Path: filepath.Join(s.Dir, "data", "ledger.db"), Terminal: "T-1",
		Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := l.Verify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestScanToSlipOverRealPorts(t *testing.T) {
	s := openShop(t)
	s.start(t)
	a := s.scan(t, s.codes["2000"][0])
	if a.Verdict.Reason != validate.Winner || *a.Verdict.AmountMinor != 2000 || a.Receipt != nil {
		t.Fatalf("%+v", a)
	}
	paid := s.pay(t, a)
	if paid.Stage != terminal.Paid || paid.Receipt == nil {
		t.Fatalf("%+v", paid)
	}
	slip, err := s.Paper.Next(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"REÇU DE PAIEMENT", "20 €", "vingt euros", "Émission", "N° de registre", "1-000001", "DÉMONSTRATION"} {
		if !strings.Contains(slip.Text(), want) {
			t.Errorf("the slip lacks %q:\n%s", want, slip.Text())
		}
	}
	if strings.Contains(slip.Text(), "DUPLICATA") {
		t.Error("the original is marked DUPLICATA")
	}
	if r := s.printed(t); r.Number != "1-000001" || r.Copies != 1 {
		t.Errorf("%+v", r)
	}
	if again := s.again(t, s.codes["2000"][0]); again.Verdict.Reason != validate.AlreadyPaidHere || again.Verdict.Paid.Number != "1-000001" {
		t.Errorf("%+v", again.Verdict)
	}
	if v := s.scan(t, s.codes["0"][0]); v.Verdict.Reason != validate.NotAWinner || *v.Verdict.AmountMinor != 0 {
		t.Errorf("%+v", v.Verdict)
	}
	if v := s.scan(t, s.codes["200000"][0]); v.Verdict.Reason != validate.AboveShopLimit {
		t.Errorf("%+v", v.Verdict)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := s.journal(t); c.Claims != 1 || c.Money != 2000 {
		t.Errorf("%+v", c)
	}
	log, err := os.ReadFile(s.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(s.codes["2000"][:1], s.codes["0"][:1], s.codes["200000"][:1]) {
		if bytes.Contains(log, []byte(c.Secret())) {
			t.Error("the log holds a secret")
		}
	}
}

// TestKilledAtAnyStepPaysOnce kills the real program at each step of a claim, with the
// printer staying on or losing its buffer, and starts it again: the ticket is paid
// once, and at most one of its slips is no DUPLICATA.
func TestKilledAtAnyStepPaysOnce(t *testing.T) {
	for _, step := range []string{"opened", "shown", "recorded", "paid-shown", "sending", "sent", "marked"} {
		for _, printerToo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,printer=%v", step, printerToo), func(t *testing.T) {
				t.Parallel()
				killAt(t, step, printerToo)
			})
		}
	}
}

func killAt(t *testing.T, step string, printerToo bool) {
	s := openShop(t)
	code := s.codes["2000"][0]
	s.start(t, "GRATTOIR_CRASH="+step)
	ctx := deadline(t)
	// The program may be gone before it answers; what it said then does not count.
	if a, err := s.Scan(ctx, code.Digits()); err == nil {
		_, _ = s.Client.Pay(ctx, a.ID, true)
	}
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if printerToo {
		s.Paper.PowerCycle()
	}
	durable := s.journal(t).Claims
	if early := step == "opened" || step == "shown"; early != (durable == 0) {
		t.Fatalf("killed at %s: %d durable claims", step, durable)
	}
	s.start(t)
	a := s.scan(t, code)
	if durable == 0 {
		if a.Verdict.Reason != validate.Winner {
			t.Fatalf("unpaid before the cut, now %s", a.Verdict.Reason)
		}
		a = s.pay(t, a)
		if a.Receipt == nil {
			t.Fatalf("not paid: %+v", a)
		}
	} else if a.Verdict.Reason != validate.AlreadyPaidHere {
		t.Fatalf("paid before the cut, now %s", a.Verdict.Reason)
	}
	if again := s.pay(t, s.again(t, code)); again.Receipt != nil || again.Verdict.Reason != validate.AlreadyPaidHere {
		t.Fatalf("paid again: %+v", again)
	}
	s.printed(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := s.journal(t); c.Claims != 1 || c.Money != 2000 {
		t.Fatalf("%+v", c)
	}
	originals, copies := 0, 0
	for _, slip := range s.Paper.Slips() {
		switch text := slip.Text(); {
		case !strings.Contains(text, "1-000001"): // the torn rest of a slip that was cut off
		case strings.Contains(text, "DUPLICATA"):
			copies++
		default:
			originals++
		}
	}
	if originals > 1 || originals+copies < 1 {
		t.Errorf("%d originals and %d copies came out", originals, copies)
	}
}

func TestSecondDaemonIsRefusedBeforeItTouchesTheDevices(t *testing.T) {
	s := openShop(t)
	s.start(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "--config", filepath.Join(s.Dir, "terminald.toml")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another process has the ledger open") {
		t.Fatalf("%v: %s", err, out)
	}
	if a := s.scan(t, s.codes["0"][0]); a.Verdict.Reason != validate.NotAWinner {
		t.Fatalf("the first one was disturbed: %s", a.Verdict.Reason)
	}
}

func TestUnpluggedDevicesComeBackAndNothingIsPaidWithoutThePrinter(t *testing.T) {
	s := openShop(t)
	s.start(t)
	ctx := deadline(t)
	if err := s.Paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	s.await(t, func(st control.Status) bool { return st.Printer != nil })
	a := s.scan(t, s.codes["2000"][0])
	if a.Verdict.Reason != validate.Winner {
		t.Fatalf("check without a printer: %s", a.Verdict.Reason)
	}
	if p := s.pay(t, a); p.Verdict.Reason != validate.PrinterNotReady || p.Receipt != nil {
		t.Fatalf("pay without a printer: %+v", p)
	}
	if err := errors.Join(s.Glass.Unplug(), s.Paper.Replug()); err != nil {
		t.Fatal(err)
	}
	s.await(t, func(st control.Status) bool { return st.Printer == nil && st.Scanner != nil })
	if err := s.Glass.Replug(); err != nil {
		t.Fatal(err)
	}
	s.await(t, func(st control.Status) bool { return st.Scanner == nil })
	if p := s.pay(t, s.again(t, s.codes["2000"][0])); p.Receipt == nil {
		t.Fatalf("%+v", p)
	}
	if _, err := s.Paper.Next(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) await(t *testing.T, what func(control.Status) bool) {
	t.Helper()
	ctx := deadline(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := s.Client.Status(ctx)
		if err == nil && what(st) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%+v, %v", st, err)
		}
	}
}

func TestDamagedManifestIsAnsweredAndNamed(t *testing.T) {
	s := openShop(t)
	path := filepath.Join(s.Dir, "data", "manifests", "b.manifest")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-4096], 0o600); err != nil { // the last page is gone
		t.Fatal(err)
	}
	s.start(t)
	if a := s.scan(t, s.codes["2000"][0]); a.Verdict.Reason != validate.ManifestDamaged || a.Verdict.Outcome != validate.Refer || a.Detail == "" {
		t.Fatalf("%+v", a)
	}
	st, err := s.Client.Status(deadline(t))
	if err != nil || len(st.Damaged) == 0 && !(len(st.Blocks) == 1 && st.Blocks[0].Damaged) {
		t.Fatalf("%+v %v", st, err)
	}
}

func TestConfigurationFaultsAreNamedBeforeAnythingStarts(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "terminald.toml")
	if err := os.WriteFile(config, []byte("nmae = \"T-1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "--config", config).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), config+":1:1") || !strings.Contains(string(out), `"name"`) {
		t.Fatalf("%v: %s", err, out)
	}
}
