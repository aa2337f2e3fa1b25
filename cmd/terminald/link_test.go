package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/cmd/internal/counter"
	"grattoir/device/control"
	"grattoir/device/sim"
	"grattoir/device/terminal"
	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// linked is a shop whose terminal is enrolled at a central of its own, both as the
// real programs.
type linked struct {
	*shop
	central *counter.Central
	program string // central
}

func openLinked(t *testing.T) *linked {
	t.Helper()
	return openLinkedWith(t, "1-10")
}

// openLinkedWith puts so many of the ten packs on sale; all are delivered.
func openLinkedWith(t *testing.T, active string) *linked {
	t.Helper()
	return openLinkedOf(t, 600, tiers, active)
}

// openLinkedOf has a block of so many tickets and prizes, in packs of 60 that are all delivered.
func openLinkedOf(t *testing.T, tickets int64, tiers []manifest.Tier, active string) *linked {
	t.Helper()
	dir := t.TempDir()
	l := &linked{program: filepath.Join(dir, "bin-central")}
	if out, err := exec.Command("go", "build", "-o", l.program, "grattoir/cmd/central").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.central = counter.NewCentral(filepath.Join(dir, "central"), l.program, "127.0.0.1:0", "127.0.0.1:0")
	t.Cleanup(l.central.Close)
	if err := l.central.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	till := filepath.Join(dir, "till")
	l.shop = &shop{codes: sealTickets(t, till, tickets, tiers)}
	sealed := filepath.Join(till, "data", "manifests", "b.manifest")
	l.run(t, nil, "block", "publish", sealed, "--key", filepath.Join(till, "lottery.pub"), "--trust")
	if err := os.Remove(sealed); err != nil { // it comes over the link
		t.Fatal(err)
	}
	var added struct{ Code string }
	l.run(t, &added, "terminal", "add", "T-1")
	l.enrol(t, till, added.Code)
	l.run(t, nil, "pack", "deliver", "399", fmt.Sprintf("1-%d", tickets/60), "--to", "T-1")
	l.run(t, nil, "pack", "activate", "399", active)
	config := strings.NewReplacer("keys = [\"lottery.pub\"]\n", "", "stand_alone = true\n", "", "shop.name", "central.url = \""+l.central.URL()+"\"\nshop.name").Replace(shopConfig)
	if err := os.WriteFile(filepath.Join(till, "terminald.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.Counter, err = counter.Open(till, path, sim.PrinterOptions{Columns: 48}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(l.LogPath())
			other, _ := os.ReadFile(l.central.Dir + ".log")
			t.Logf("terminald's log:\n%s\ncentral's log:\n%s", log, other)
		}
		l.Close()
	})
	return l
}

func (l *linked) enrol(t *testing.T, till, code string) {
	t.Helper()
	_, err := uplink.Enrol(deadline(t), uplink.EnrolOptions{URL: l.central.URL(), Code: code, Dir: filepath.Join(till, "data", "identity")})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command of central beside the server.
func (l *linked) run(t *testing.T, into any, args ...string) {
	t.Helper()
	out, err := exec.Command(l.program, append(args, "--data", l.central.Dir, "--json")...).Output()
	if err != nil {
		t.Fatalf("central %v: %v\n%s", args, err, out)
	}
	if into != nil {
		if err := json.Unmarshal(out, into); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEitherSideKilledAtAnyMomentEndsWithEqualLedgers pays tickets while the terminal,
// central or both are killed and started again, without waiting for what is under way.
// At the end both have the same entries, byte for byte, each payment accepted once.
func TestEitherSideKilledAtAnyMomentEndsWithEqualLedgers(t *testing.T) {
	l := openLinked(t)
	rounds := 10
	if os.Getenv("GRATTOIR_SOAK") != "" {
		rounds = 300
	}
	rng := mathrand.New(mathrand.NewPCG(uint64(rounds), 7))
	winners := l.codes["2000"]
	steps := []string{"", "", "", "recorded", "paid-shown", "sending", "sent"}
	for round := range rounds {
		step := steps[rng.IntN(len(steps))]
		if round == 0 { // block and packs arrive in peace
			step = ""
		}
		ctx := deadline(t)
		err := l.Start(ctx, "GRATTOIR_CRASH="+step)
		if err != nil && step == "" {
			t.Fatal(err)
		}
		if round == 0 && err == nil {
			l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
		}
		for range 1 + rng.IntN(3) {
			if err != nil {
				break // killed at the step, maybe while it recovered
			}
			var a control.Answer
			if a, err = l.Client.Check(ctx, winners[rng.IntN(len(winners))].Digits(), false); err != nil {
				break
			}
			if a.Verdict.Reason != validate.Winner && a.Verdict.Reason != validate.AlreadyPaidHere {
				t.Fatalf("round %d: %s, %s", round, a.Verdict.Reason, a.Detail)
			}
			_, err = l.Client.Pay(ctx, a.ID, false)
		}
		if rng.IntN(2) == 0 {
			if err := l.central.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		l.Crash()
		l.central.Close()
		if err := l.central.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	l.start(t)
	l.await(t, func(st control.Status) bool {
		return st.Link.Entries == 0 && st.Unsent.Claims == 0 && st.Link.Contact.After(st.Trusted.AddDate(-1, 0, 0))
	})
	l.settled(t)
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.central.Stop(); err != nil {
		t.Fatal(err)
	}
	l.compare(t)
}

// settled waits until no slip waits, so that the stop is an orderly one.
func (l *linked) settled(t *testing.T) {
	t.Helper()
	l.await(t, func(control.Status) bool {
		list, err := l.Client.Last(deadline(t))
		if err != nil {
			return false
		}
		for _, r := range list {
			if r.Print == validate.Sending {
				return false
			}
		}
		return true
	})
}

func (l *linked) compare(t *testing.T) {
	t.Helper()
	check := l.journal(t)
	c, err := central.Open(context.Background(), central.Options{Dir: l.central.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	book, err := ledger.Open(context.Background(), ledger.Options{Path: filepath.Join(l.Dir, "data", "ledger.db"), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	err = book.Lines(context.Background(), 1, 0, func(seq int64, line []byte) error {
		var copied []byte
		if err := c.Reader().QueryRow("SELECT line FROM entries WHERE terminal = 'T-1' AND epoch = 1 AND seq = ?", seq).Scan(&copied); err != nil || !bytes.Equal(line, copied) {
			return fmt.Errorf("entry %d differs at central: %w", seq, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var entries, claims, conflicts int64
	if err := c.Reader().QueryRow("SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM claims), (SELECT count(*) FROM conflicts)").Scan(&entries, &claims, &conflicts); err != nil {
		t.Fatal(err)
	}
	if entries != check.Entries || claims != check.Claims || conflicts != 0 || claims == 0 {
		t.Errorf("%d entries and %d claims here, %d and %d at central, %d conflicts", check.Entries, check.Claims, entries, claims, conflicts)
	}
}

func TestDamagedBlockIsFetchedAgain(t *testing.T) {
	l := openLinked(t)
	l.start(t)
	whole := func(st control.Status) bool { return len(st.Blocks) == 1 && !st.Blocks[0].Damaged && st.Link.Feed > 0 }
	l.await(t, whole)
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(l.Dir, "data", "manifests", "*.manifest"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(text); i++ { // the size stays: only the content tells
		text[i] = 0
	}
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	l.start(t)
	l.await(t, whole)
	if a := l.again(t, l.codes["2000"][0]); a.Verdict.Reason != validate.Winner {
		t.Fatalf("%s, %s", a.Verdict.Reason, a.Detail)
	}
}

func TestPackThatCentralHasNotActivatedIsNotPaid(t *testing.T) {
	l := openLinked(t)
	l.run(t, nil, "terminal", "list") // a second process beside the server
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	a := l.again(t, l.codes["2000"][0])
	if a.Verdict.Reason != validate.Winner {
		t.Fatalf("active: %s", a.Verdict.Reason)
	}
	if err := l.central.Kill(); err != nil { // what is known stays known
		t.Fatal(err)
	}
	if p := l.pay(t, l.again(t, l.codes["2000"][0])); p.Stage != terminal.Paid {
		t.Fatalf("%+v", p.Verdict)
	}
	st, err := l.Client.Status(deadline(t))
	if err != nil || st.Unsent.Claims != 1 || st.Unsent.Oldest.IsZero() {
		t.Fatalf("%+v %v", st.Unsent, err)
	}
}

// TestPackIsPutOnSaleAtTheShopWithNoNetwork: from the public code to central's word.
func TestPackIsPutOnSaleAtTheShopWithNoNetwork(t *testing.T) {
	l := openLinkedWith(t, "1-9")
	l.start(t, "GRATTOIR_CRASH=pack-activated")
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed >= 2 })
	if err := l.central.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	back, err := ticket.Make(ticket.G18(), "399", 10, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Scan(ctx, back.Digits())
	if err != nil || a.Pack == nil || !a.Pack.Activatable {
		t.Fatalf("%+v %v", a, err)
	}
	if p, err := l.Client.ActivateShown(ctx, a.ID); err == nil {
		t.Fatalf("%+v: the program was to end before it answers", p)
	}
	if err := l.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	l.start(t) // it was durable before anything said so
	if p, err := l.Client.Pack(ctx, "00399", 10); err != nil || p.State != validate.PackActive {
		t.Fatalf("after a restart: %+v %v", p, err)
	}
	if err := l.central.Start(ctx); err != nil {
		t.Fatal(err)
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 })
	var list []central.Pack
	l.run(t, &list, "pack", "list", "399", "--state", "active")
	if len(list) != 10 || list[9].Number != 10 {
		t.Errorf("active at central: %+v", list)
	}
}

// TestSuspensionStolenTicketsAndReturnHoldWithNoNetwork: what central said last is what
// the counter goes by when nobody can be asked, over a restart too.
func TestSuspensionStolenTicketsAndReturnHoldWithNoNetwork(t *testing.T) {
	l := openLinked(t)
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed >= 2 })
	code := l.codes["2000"][0]
	want := func(reason validate.Reason) {
		t.Helper()
		l.await(t, func(control.Status) bool {
			a, err := l.Client.Check(deadline(t), code.Digits(), false)
			return err == nil && a.Verdict.Reason == reason
		})
	}
	pack, ticket := fmt.Sprint(code.Pack), fmt.Sprint(code.Number)
	want(validate.Winner)
	l.run(t, nil, "pack", "stolen", "399", pack, "--tickets", ticket)
	want(validate.PackStolen)
	l.run(t, nil, "game", "suspend", "bingo", "--reason", "misprint", "--operator", "anne")
	want(validate.GameSuspended)
	l.run(t, nil, "terminal", "suspend", "T-1", "--payments-only", "--reason", "inquiry")
	want(validate.TerminalSuspended)
	if err := l.central.Kill(); err != nil {
		t.Fatal(err)
	}
	l.Crash()
	l.start(t)
	want(validate.TerminalSuspended)
	st, err := l.Client.Status(deadline(t))
	if err != nil || len(st.Link.Suspended) != 2 || st.Link.Suspended[0].Reason != "inquiry" || st.Link.Suspended[1].Game != "bingo" {
		t.Fatalf("%+v %v", st.Link, err)
	}
	if err := l.central.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	l.run(t, nil, "terminal", "resume", "T-1")
	want(validate.GameSuspended)
	l.run(t, nil, "game", "resume", "bingo", "--operator", "anne")
	want(validate.PackStolen)
	l.run(t, nil, "pack", "recover", "399", pack, "--tickets", ticket)
	want(validate.Winner)
}

// TestPolicyComesOverTheLinkAndIsInForce: signed in the office, published at central,
// paid by at the shop; a later version takes its place.
func TestPolicyComesOverTheLinkAndIsInForce(t *testing.T) {
	l := openLinked(t)
	publish := func(version string, limit int) {
		t.Helper()
		in, out := filepath.Join(l.Dir, version+".toml"), filepath.Join(l.Dir, version+".signed")
		text, err := os.ReadFile("../../configs/policy.toml")
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.NewReplacer(`"2026-1"`, `"`+version+`"`, `"2026-12-01"`, `"2020-01-01"`, "booked_risk_minor = 2000", "booked_risk_minor = 1000", "shop_limit_minor = 30000", fmt.Sprint("shop_limit_minor = ", limit)).Replace(string(text)))
		if err := os.WriteFile(in, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(l.program, "policy", "sign", "--in", in, "--key", filepath.Join(l.Dir, "lottery.key"), "--out", out).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		l.run(t, nil, "policy", "publish", out, "--operator", "anne")
		l.Crash() // it asks at each start, and else within minutes
		l.start(t)
		l.await(t, func(st control.Status) bool {
			return st.Policy == version && st.Limits.Source == "signed" && len(st.Blocks) == 1 && st.Link.Feed >= 2
		})
	}
	publish("2026-2", 1999)
	if a := l.again(t, l.codes["2000"][0]); a.Verdict.Reason != validate.AboveShopLimit {
		t.Fatalf("20 EUR above a limit of 19.99: %s", a.Verdict.Reason)
	}
	publish("2026-3", 2000)
	if a := l.again(t, l.codes["2000"][0]); a.Verdict.Reason != validate.Winner || a.Verdict.Policy != "2026-3" {
		t.Fatalf("a later version: %s by policy %s", a.Verdict.Reason, a.Verdict.Policy)
	}
}
