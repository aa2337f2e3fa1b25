// Command terminald is the terminal's daemon. It loads its configuration, opens the
// manifests and the ledger, recovers, serves the counter, and stops in order. It holds
// no rule of the trade: run.go tells the order of things.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // the image may have no zones; slips and claim periods need Paris

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	var path string
	var example bool
	cmd := &cobra.Command{
		Use:   "terminald",
		Short: "Run a lottery terminal: scanner, verdicts, payments, slips",
		Example: `  terminald --example > terminald.toml    write a configuration to edit
  terminald --config terminald.toml`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				_, err := fmt.Print(string(configs.TerminalExample))
				return err
			}
			c, err := configs.LoadTerminal(path)
			if err != nil {
				return cli.Exit(cli.Usage, err)
			}
			cli.SmallHeap()
			return run(cmd.Context(), path, c)
		},
	}
	cmd.Flags().StringVar(&path, "config", "/etc/grattoir/terminald.toml", "configuration `file`")
	cmd.Flags().BoolVar(&example, "example", false, "print an example configuration and stop")
	return cmd
}
