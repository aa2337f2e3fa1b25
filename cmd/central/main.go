// Command central is the operations' side: it reads regulations, makes keys, seals
// blocks. Each command's help has an example.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	root := cli.Group("central", "Operations of the lottery: games, keys, blocks", gameCommand(), keyCommand(), blockCommand())
	return root
}
