// Command central is the operations' side: it reads regulations, makes keys, seals
// blocks, serves the terminals. Each command's help has an example.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	block := blockCommand()
	block.AddCommand(blockPublishCommand(), blockPepperCommand())
	root := cli.Group("central", "Operations of the lottery: games, keys, blocks, terminals", gameCommand(), keyCommand(), block, policyCommand(),
		serveCommand(), stickCommand(), terminalCommand(), packCommand(), reversalCommand(), conflictCommand(), messageCommand(), identityCommand(), reportCommand(), settlementCommand(),
		backupCommand(), restoreCommand(), userCommand(), auditCommand(), claimsCommand(), caCommand(), catalogueCommand(), softwareCommand())
	classify(root)
	return root
}
