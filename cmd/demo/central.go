package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"grattoir/cmd/internal/counter"
	"grattoir/sync/central"
	"grattoir/sync/ledger"
)

// openOperations starts central, publishes the block, and enrols the terminal.
func (d *demo) openOperations(ctx context.Context) (*counter.Central, error) {
	chapter("Central starts, publishes the block, and the terminal enrols")
	o := counter.NewCentral(d.path("central"), filepath.Join(d.bin, "central"), "127.0.0.1:8443", "127.0.0.1:8088")
	if err := o.Start(ctx); err != nil {
		return o, err
	}
	if err := d.addUser(ctx); err != nil {
		return o, err
	}
	if err := d.program(ctx, "central", "block", "publish", d.path("bingo-1.manifest"), "--key", d.path("keys/demo-lottery.pub"), "--trust", "--data", d.path("central")); err != nil {
		return o, err
	}
	var added struct {
		Code string `json:"code"`
	}
	if err := d.ask(ctx, &added, "central", "terminal", "add", terminalName, "--data", d.path("central"), "--json"); err != nil {
		return o, err
	}
	return o, d.program(ctx, "terminalctl", "enrol", added.Code, "--central", o.URL(), "--data", d.path("data"))
}

// Who signs in at the demonstration's console, which is on loopback and has nothing but
// simulated numbers.
const (
	demoUser     = "demo"
	demoPassword = "grattoir-demonstration"
)

// addUser makes the console's user.
func (d *demo) addUser(ctx context.Context) error {
	args := []string{"user", "add", demoUser, "--role", "operator", "--data", d.path("central")}
	say("$ central %s\n", strings.Join(d.short(args), " "))
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "central"), args...)
	cmd.Stdin = strings.NewReader(demoPassword + "\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("central user add: %w\n%s", err, text)
	}
	return nil
}

// ask runs a program and reads its JSON.
func (d *demo) ask(ctx context.Context, into any, name string, args ...string) error {
	say("$ %s %s\n", name, strings.Join(d.short(args), " "))
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, name), args...)
	var trouble strings.Builder
	cmd.Stderr = &trouble
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, trouble.String())
	}
	return json.Unmarshal(text, into)
}

// activation shows that a pack nobody activated pays nothing, then puts the packs on sale.
func (d *demo) activation(ctx context.Context, c *desk, o *counter.Central, list *tickets) error {
	chapter("A winner of a pack that is not on sale, then the packs are delivered and activated")
	if err := o.Until(ctx, "the block did not arrive", func() bool {
		st, err := c.Client.Status(ctx)
		return err == nil && len(st.Blocks) == 1
	}); err != nil {
		return err
	}
	code, err := list.take(2000)
	if err != nil {
		return err
	}
	list.back(2000, code)
	a, err := c.Scan(ctx, code.Digits())
	if err != nil {
		return err
	}
	d.show(a)
	d.expect("before activation", string(a.Verdict.Reason), "pack-not-active")
	if a.Verdict.AmountMinor != nil {
		d.wrong = append(d.wrong, "a pack that is not on sale told its prize")
	}
	for _, args := range [][]string{
		{"pack", "deliver", code.Game, "1-1500", "--to", terminalName, "--data", d.path("central")},
		{"pack", "activate", code.Game, "1-1500", "--data", d.path("central")},
	} {
		if err := d.program(ctx, "central", args...); err != nil {
			return err
		}
	}
	return o.Until(ctx, "the activation did not arrive", func() bool {
		a, err := c.Client.Check(ctx, code.Digits(), false)
		return err == nil && a.Verdict.Reason == "winner"
	})
}

// outage cuts central off, pays on, and lets it come back: everything arrives, once.
func (d *demo) outage(ctx context.Context, c *desk, o *counter.Central, list *tickets) error {
	chapter("Central is cut off; the counter goes on")
	if err := o.Kill(); err != nil {
		return err
	}
	for range 3 {
		code, err := list.take(2000)
		if err != nil {
			return err
		}
		if err := d.payWinner(ctx, c, code, 2000); err != nil {
			return err
		}
	}
	st, err := c.Client.Status(ctx)
	if err != nil {
		return err
	}
	say("  %d payments are not sent yet\n", st.Unsent.Claims)
	if st.Unsent.Claims < 3 {
		d.wrong = append(d.wrong, fmt.Sprintf("three payments were made without central, %d are unsent", st.Unsent.Claims))
	}
	chapter("Central comes back; everything arrives, once")
	if err := o.Start(ctx); err != nil {
		return err
	}
	if err := o.Until(ctx, "the payments did not arrive", func() bool {
		st, err := c.Client.Status(ctx)
		return err == nil && st.Unsent.Claims == 0 && st.Link != nil && st.Link.Entries == 0
	}); err != nil {
		return err
	}
	for _, report := range []string{"sync", "payouts"} {
		if err := d.program(ctx, "central", "report", report, "--data", d.path("central")); err != nil {
			return err
		}
	}
	return nil
}

// compareLedgers holds the terminal's journal against central's copy, entry by entry.
func (d *demo) compareLedgers(ctx context.Context) error {
	chapter("The two ledgers, entry by entry")
	var own [][]byte
	book, err := ledger.Open(ctx, ledger.Options{Path: d.path("data/ledger.db"), Terminal: terminalName, Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		return err
	}
	err = book.Lines(ctx, 1, 0, func(_ int64, line []byte) error { own = append(own, line); return nil })
	if err := errors.Join(err, book.Close()); err != nil {
		return err
	}
	c, err := central.Open(ctx, central.Options{Dir: d.path("central")})
	if err != nil {
		return err
	}
	defer c.Close()
	rows, err := c.Reader().QueryContext(ctx, "SELECT line FROM entries WHERE terminal = ? AND epoch = 1 ORDER BY seq", terminalName)
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var line []byte
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if n >= len(own) || !bytes.Equal(line, own[n]) {
			d.wrong = append(d.wrong, fmt.Sprintf("entry %d differs between terminal and central", n+1))
		}
	}
	if n != len(own) {
		d.wrong = append(d.wrong, fmt.Sprintf("the terminal has %d entries, central %d", len(own), n))
	}
	var accepted, conflicts int
	if err := c.Reader().QueryRowContext(ctx, "SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM conflicts)").Scan(&accepted, &conflicts); err != nil {
		return err
	}
	say("  %d entries at the terminal, %d at central, the same bytes; %d payments accepted, %d in conflict\n", len(own), n, accepted, conflicts)
	paid := 0 // entries tell of copies and more, too
	for _, line := range own {
		if e, err := ledger.ParseEntry(line); err == nil && e.Kind == ledger.KindClaim {
			paid++
		}
	}
	if accepted != paid || conflicts != 0 {
		d.wrong = append(d.wrong, fmt.Sprintf("%d of %d payments accepted, %d conflicts", accepted, paid, conflicts))
	}
	return rows.Err()
}
