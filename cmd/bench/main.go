// Command bench measures the figures of the design and prints each beside what it is
// compared with, measured in the same run by turns: the machine may be busy, so a time
// alone says nothing. `make bench` runs it; the numbers also go to bench-out/.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure the figures of the design, each beside what it is compared with",
		Example: "  bench --out bench-out",
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&b.out, "out", "bench-out", "`folder` for the table and the work files")
	cmd.Flags().Int64Var(&b.tickets, "tickets", 9000000, "tickets of the block that is sealed and opened")
	cmd.Flags().IntVar(&b.rounds, "rounds", 400, "rounds of each comparison")
	cmd.AddCommand(shelfCommand(), fleetCommand())
	return cmd
}

type bench struct {
	out     string
	tickets int64
	rounds  int
	rows    []row
}

// row is one figure: ours, what it is compared with, and the wanted bound.
type row struct {
	what, ours, beside, ratio, want string
}

func (b *bench) run(ctx context.Context) error {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(b.out, "work-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	sealed, err := b.sealing(ctx, work)
	if err != nil {
		return err
	}
	if err := b.lookups(ctx, sealed); err != nil {
		return err
	}
	if err := b.shelf(ctx, work, sealed); err != nil {
		return err
	}
	if err := b.rivals(ctx, work, sealed); err != nil {
		return err
	}
	if err := b.claims(ctx, work, sealed); err != nil {
		return err
	}
	if err := b.symbols(ctx, work); err != nil {
		return err
	}
	if err := b.fleet(); err != nil {
		return err
	}
	return b.print()
}

func (b *bench) add(what, ours, beside, ratio, want string) {
	b.rows = append(b.rows, row{what, ours, beside, ratio, want})
	fmt.Fprintf(os.Stderr, "measured: %s\n", what)
}

func (b *bench) print() error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tOURS\tBESIDE IT\tRATIO\tWANTED")
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.what, r.ours, r.beside, r.ratio, r.want)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(b.out, "figures.txt"), []byte(text.String()), 0o644)
}

// times are durations of one act, in the order measured.
type times []time.Duration

func (t times) at(quantile float64) time.Duration {
	s := slices.Clone(t)
	slices.Sort(s)
	return s[min(len(s)-1, int(float64(len(s))*quantile))]
}

func (t times) median() time.Duration { return t.at(0.5) }

func (t times) String() string {
	return fmt.Sprintf("%v median, %v p99", t.median().Round(100*time.Nanosecond), t.at(0.99).Round(100*time.Nanosecond))
}

func ratio(a, b times) string { return fmt.Sprintf("%.2f", float64(a.median())/float64(b.median())) }
