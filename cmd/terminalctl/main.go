// Command terminalctl is the technician's and the clerk's tool beside a terminal:
// verdicts without a daemon, acts through the daemon's socket, the journal, and
// simulated devices.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	return cli.Group("terminalctl", "Check tickets, drive a terminal, look after it",
		checkCommand(), manifestCommand(), policyCommand(), scanCommand(), digitsCommand(), payCommand(), askCommand(), batchCommand(), reverseCommand(), reprintCommand(), lastCommand(), historyCommand(),
		signOnCommand(), signOffCommand(), lockCommand(), unlockCommand(), closingCommand(), trainingCommand(), packCommand(), messageCommand(), statusCommand(), enrolCommand(), operatorCommand(),
		journalCommand(), archiveCommand(), stickCommand(), slipCommand(), printerCommand(), simCommand(), flashCommand(), provisionCommand(), updateCommand(),
		doctorCommand(), selftestCommand(), bundleCommand(), codesCommand())
}

const defaultSocket = "/run/grattoir/terminald.sock"

func socketFlag(cmd *cobra.Command, path *string) {
	fallback := os.Getenv("GRATTOIR_SOCKET")
	if fallback == "" {
		fallback = defaultSocket
	}
	cmd.Flags().StringVar(path, "socket", fallback, "the daemon's `socket` (also GRATTOIR_SOCKET)")
}

func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print the answer as JSON")
}
