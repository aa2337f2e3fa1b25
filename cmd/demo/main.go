// Command demo shows the main job at the counter with simulated devices: it imports a
// regulation, seals a block, starts terminald, scans a series of tickets whose answers
// it knows, pays, prints the slips, and pulls the plug in the middle of a payment. It
// uses the programs as their users do and ends with a status that is not 0 when any
// answer was wrong. `make demo` runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show the main job at the counter, with simulated devices",
		Example: "  demo --bin bin --out demo-out --once",
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&d.bin, "bin", "bin", "`folder` of the programs")
	cmd.Flags().StringVar(&d.out, "out", "demo-out", "`folder` for the slips and everything else; emptied first")
	cmd.Flags().StringVar(&d.regulation, "regulation", "validate/game/reglement/testdata/bingo.txt", "the regulation's `text`")
	cmd.Flags().BoolVar(&d.once, "once", false, "end after the series instead of serving until Ctrl-C")
	cmd.Flags().StringVar(&d.listen, "listen", "127.0.0.1:8087", "`address` of the page; another port is taken when it is busy")
	return cmd
}

// demo is one run. Paths are absolute after prepare.
type demo struct {
	bin, out, regulation, listen string
	once                         bool

	log   *slog.Logger
	wrong []string // what was not as it should be
}

func (d *demo) run(ctx context.Context) error {
	d.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	tickets, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	o, err := d.openOperations(ctx)
	if o != nil {
		defer o.Close()
	}
	if err != nil {
		return err
	}
	c, err := d.openDesk(ctx, o.URL())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := d.activation(ctx, c, o, tickets); err != nil {
		return err
	}
	if err := d.series(ctx, c, tickets); err != nil {
		return err
	}
	if err := d.outage(ctx, c, o, tickets); err != nil {
		return err
	}
	if !d.once && len(d.wrong) == 0 {
		if err := d.serve(ctx, c, o, tickets); err != nil {
			return err
		}
	}
	if err := c.Stop(); err != nil {
		return err
	}
	if err := o.Stop(); err != nil {
		return err
	}
	if err := d.proveJournal(c); err != nil {
		return err
	}
	if err := d.compareLedgers(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if len(d.wrong) > 0 {
		return fmt.Errorf("%d answers were wrong:\n  %s", len(d.wrong), strings.Join(d.wrong, "\n  "))
	}
	say("\nEvery answer was right. Slips: %s\n", filepath.Join(d.out, "slip-*.png"))
	return nil
}

// prepare makes the catalogue entry, the keys, the tickets and the manifest.
func (d *demo) prepare(ctx context.Context) (*tickets, error) {
	for _, p := range []*string{&d.bin, &d.out, &d.regulation} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	if err := emptyFolder(d.out); err != nil {
		return nil, err
	}
	chapter("The regulation becomes a catalogue entry")
	steps := [][]string{
		{"game", "import", d.regulation, "--out", d.path("bingo.toml")},
		{"key", "new", "--name", "demo-lottery", "--out", d.path("keys")},
		{"block", "sample", "--game", d.path("bingo.toml"), "--tickets", "90000", "--out", d.path("sample")},
		{"block", "seal", "--game", d.path("bingo.toml"), "--tickets", d.path("sample/tickets.csv"), "--key", d.path("keys/demo-lottery.key"),
			"--out", d.path("bingo-1.manifest")},
	}
	for i, args := range steps {
		if i == 1 {
			chapter("Keys, 90 000 tickets, and the sealed manifest")
		}
		if err := d.program(ctx, "central", args...); err != nil {
			return nil, err
		}
	}
	list, err := readTickets(d.path("sample/tickets.csv"))
	if err != nil {
		return nil, err
	}
	// tickets.csv is every winner in clear; from here on only this program knows them.
	return list, os.RemoveAll(d.path("sample"))
}

func (d *demo) path(name string) string { return filepath.Join(d.out, name) }

// program runs one of the project's programs and shows the command as typed.
func (d *demo) program(ctx context.Context, name string, args ...string) error {
	say("$ %s %s\n", name, strings.Join(d.short(args), " "))
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, name), d.short(args)...)
	cmd.Stdout = indent{os.Stdout}
	cmd.Dir = filepath.Dir(d.out)
	var trouble strings.Builder
	cmd.Stderr = &trouble // progress lines; shown only when it fails
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, trouble.String())
	}
	return nil
}

// short shows paths from the demo's folder.
func (d *demo) short(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.TrimPrefix(a, filepath.Dir(d.out)+"/")
	}
	return out
}

// proveJournal walks the chain with the technician's tool and counts the payments.
func (d *demo) proveJournal(c *desk) error {
	chapter("The journal, walked from its first entry")
	args := []string{"journal", "verify", d.path("data/ledger.db"), "--terminal", terminalName}
	if err := d.program(context.Background(), "terminalctl", args...); err != nil {
		d.wrong = append(d.wrong, err.Error())
		return nil
	}
	text, err := exec.Command(filepath.Join(d.bin, "terminalctl"), append(args, "--json")...).Output()
	if err != nil {
		return err
	}
	var found struct {
		Claims int `json:"claims"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	if found.Claims < c.paid || d.once && found.Claims != c.paid {
		d.wrong = append(d.wrong, fmt.Sprintf("%d payments were made, the journal holds %d", c.paid, found.Claims))
	}
	return nil
}

// emptyFolder removes only a folder that a demo made: it holds a file saying so.
func emptyFolder(dir string) error {
	mark := filepath.Join(dir, ".grattoir-demo")
	if _, err := os.Stat(dir); err == nil {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("%s exists and was not made by a demo: name another folder with --out", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

func chapter(title string) { say("\n== %s\n", title) }

func say(format string, args ...any) { fmt.Printf(format, args...) }

// indent sets a program's output apart from the demo's own.
type indent struct{ w io.Writer }

func (i indent) Write(b []byte) (int, error) {
	text := strings.TrimRight(string(b), "\n")
	_, err := fmt.Fprintf(i.w, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	return len(b), err
}
