package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/pins"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/scanner"
	"grattoir/device/terminal"
)

func selftestCommand() *cobra.Command {
	var p patient
	var skip []string
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Try the devices: print a slip, scan it back, open the drawer, light the lamps",
		Long: `Print a test slip with every letter of the printer, a ruler and a code that is no ticket;
read that code back with the scanner; open the drawer; light the lamps; read the tamper
switch. After each step that only a person can judge it asks, y or n. Nothing is recorded
and nothing is paid. Through the daemon when it is up, which refuses while a ticket is on
the counter; by opening the devices when it is down.

Exit status: 0 all worked, 3 a person should look, 1 it could not be told, 2 wrong usage.`,
		Example: `  terminalctl selftest
  terminalctl selftest --skip drawer,scan --yes --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := known(skip, health.Trials()); err != nil {
				return err
			}
			t := trial{patient: &p, skip: skip, yes: yes, answers: bufio.NewReader(cmd.InOrStdin()), ask: cmd.ErrOrStderr()}
			r, err := t.run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return errors.Join(cli.JSON(cmd.OutOrStdout(), r), reportCode(r))
			}
			if err := printReport(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			return reportCode(r)
		},
	}
	p.flags(cmd)
	cmd.Flags().StringSliceVar(&skip, "skip", nil, "`steps` to leave out, by code or name")
	cmd.Flags().BoolVar(&yes, "yes", false, "ask nobody: what the devices say themselves is enough")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// trial is one self-test.
type trial struct {
	*patient
	skip    []string
	yes     bool
	answers *bufio.Reader
	ask     io.Writer
}

// run makes every step that is not left out. The error means that nothing was tried.
func (t *trial) run(ctx context.Context) (health.Report, error) {
	t.meet(ctx)
	r := health.Report{Terminal: t.config.Name, Program: program(), At: time.Now(), Daemon: t.daemon}
	mark, err := health.NewMark()
	if err != nil {
		return r, err
	}
	try, done, err := t.hands(ctx)
	if err != nil {
		return r, err
	}
	defer done()
	if t.daemon == health.DaemonUp {
		r.Terminal = t.status.Terminal
	}
	for _, m := range health.Trials() {
		if skips(t.skip, m) {
			continue
		}
		if m.Code == health.TrialScan {
			fmt.Fprintf(t.ask, "Scan the Data Matrix of the test slip now, within %s.\n", health.Patience)
		}
		c, err := try(ctx, m.Code, mark)
		d, denied := errors.AsType[*terminal.Denied](err)
		switch {
		case denied && len(r.Checks) > 0: // a customer has come: what was tried is told
			c = health.About(m.Code).Skip("%s: %s", d.Code, strings.ReplaceAll(d.ClerkEN, "\n", " "))
			c.Hint, c.Fault, c.Unseen = d.Technician, d.Code, true
		case err != nil:
			return r, deny(err)
		}
		r.Add(t.confirm(c))
	}
	return r, nil
}

// hands are what makes a step: the daemon, or this program with devices of its own.
func (t *trial) hands(ctx context.Context) (try func(ctx context.Context, step, mark string) (health.Check, error), done func(), err error) {
	switch t.daemon {
	case health.DaemonUp:
		return newClient(t.socket).SelfTest, func() {}, nil
	case health.DaemonSilent:
		return nil, nil, fmt.Errorf("terminald may have the devices and does not answer at %s: %w\nTry: terminalctl doctor", t.socket, t.silence)
	}
	if t.broken != nil {
		return nil, nil, cli.Exit(cli.Usage, t.broken)
	}
	bench, done, err := t.ownBench(ctx)
	return func(ctx context.Context, step, mark string) (health.Check, error) {
		return bench.Try(ctx, step, mark), nil
	}, done, err
}

// ownBench opens the devices that the steps need. One that cannot be opened fails its step
// and leaves the others.
func (t *trial) ownBench(ctx context.Context) (b health.Bench, done func(), err error) {
	var ear health.Ear
	var stops []func()
	done = func() {
		for _, stop := range stops {
			stop()
		}
	}
	board, err := t.ownBoard()
	if err != nil {
		return b, done, cli.Exit(cli.Usage, err)
	}
	if board != nil {
		stops = append(stops, func() { _ = board.Close() }) // what would not go off has been told by its step
	}
	paper, err := connect(ctx, t.config, board)
	switch {
	case paper == nil:
		return b, done, cli.Exit(cli.Usage, err)
	case err == nil:
		stops = append(stops, paper.stop)
	}
	b = pins.Bench(board, health.PaperBench(paper.device, paper.profile)) // one that is not open says why by itself
	if t.leftOut(health.TrialScan) {
		return b, done, nil
	}
	glass, err := listen(ctx, glassConfig(t.config), func(s scanner.Scan) { ear.Caught(s.Text) })
	if err != nil {
		return b, done, cli.Exit(cli.Usage, err)
	}
	stops = append(stops, glass.stop)
	b = ear.Join(b)
	if f := glass.fault; f != nil {
		b.Scan = func(context.Context, string) error { return fmt.Errorf("%s: %s", f.Code, f.Technician) }
	}
	return b, done, nil
}

// ownBoard opens the pins; nil where the configuration names none.
func (t *trial) ownBoard() (*gpio.Board, error) {
	if err := pins.Of(t.config).Validate(); err != nil {
		return nil, err
	}
	find := pins.Machine(t.config)
	if find == nil {
		return nil, nil
	}
	tell := func(faults []*gpio.Fault) {
		if len(faults) > 0 {
			fmt.Fprintf(t.ask, "%s: %s\n", faults[0].Code, faults[0].Technician)
		}
	}
	return gpio.Open(gpio.Options{Config: pins.Of(t.config), Find: find, Log: quiet(), Faults: tell}), nil
}

func (t *trial) leftOut(code string) bool {
	for _, m := range health.Trials() {
		if m.Code == code {
			return skips(t.skip, m)
		}
	}
	return false
}

// confirm asks a person about a step that its device cannot judge.
func (t *trial) confirm(c health.Check) health.Check {
	question := map[string]string{
		health.TrialPrint:  "Is the slip whole, each ruler to its last mark and every letter as it should be?",
		health.TrialDrawer: "Has the drawer opened?",
		health.TrialLamps:  "Were all lamps lit and was the buzzer heard?",
	}[c.Code]
	if question == "" || c.State != health.OK || t.yes {
		return c
	}
	fmt.Fprintf(t.ask, "%s [y/n] ", question)
	line, err := t.answers.ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case answer == "y" || answer == "yes" || answer == "o" || answer == "oui":
		return c.Confirm(true)
	case answer == "n" || answer == "no" || answer == "non":
		return c.Confirm(false)
	case err != nil && !errors.Is(err, io.EOF):
		fmt.Fprintf(os.Stderr, "terminalctl: %v\n", err)
	}
	return c.Unanswered()
}
