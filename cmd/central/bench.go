package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func terminalBenchCommand() *cobra.Command {
	var f folder
	var all bool
	cmd := &cobra.Command{
		Use:   "bench NAME",
		Short: "Show how a terminal left the bench: its settings as they were read back, its self-test, its serial numbers",
		Long: `Show the record with which a terminal left the bench (terminalctl provision verify). It was
signed by the device's key, which was verified when it came; it says what was seen then.

Exit status: 0 it left the bench in order, 3 it did not, or has left no record.`,
		Example: `  central terminal bench shop-0042
  central terminal bench shop-0042 --all --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			person := false
			err := f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Benches(ctx, args[0])
				if err != nil {
					return nil, nil, err
				}
				person = len(list) == 0 || !list[0].Bench.OK
				if !all {
					list = list[:min(1, len(list))]
				}
				return list, func(w io.Writer) error { return printBenches(w, args[0], list) }, nil
			})
			if err == nil && person {
				return cli.Exit(cli.Person, nil)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "earlier records too, the newest first")
	f.flags(cmd)
	return cmd
}

func printBenches(w io.Writer, name string, list []central.BenchRecord) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "%s has told of no bench: on the terminal, terminalctl provision verify\n", name)
		return err
	}
	for _, r := range list {
		b := r.Bench
		word := "left the bench OK"
		if !b.OK {
			word = "did NOT pass the bench"
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "%s %s\nat\t%s by its clock, told %s\nby\t%s, with %s\nprovisioned\tserial %d, shop %s\nkey\t%s\n", b.Terminal, word, cli.Line(b.At), when(r.Received),
			orDash(cli.Line(b.Operator)), cli.Line(b.Program), b.Serial, cli.Line(cmp.Or(b.Shop, b.Terminal)), r.Fingerprint)
		for _, name := range slices.Sorted(maps.Keys(b.Parts)) {
			fmt.Fprintf(t, "%s\t%s\n", cli.Line(name), cli.Line(b.Parts[name]))
		}
		for _, c := range b.Checks {
			fmt.Fprintf(t, "%s %s\t%s: %s\n", cli.Line(c.Code), cli.Line(c.Name), cli.Line(c.State), cli.Line(c.Detail))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
