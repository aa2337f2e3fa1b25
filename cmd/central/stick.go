package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func stickCommand() *cobra.Command {
	return cli.Group("stick", "Carry blocks, peppers and policies to terminals with no network", stickMakeCommand())
}

func stickMakeCommand() *cobra.Command {
	var f folder
	var o central.StickOrder
	cmd := &cobra.Command{
		Use:   "make DIR [--terminal T]... [--policy FILE]...",
		Short: "Write the newest snapshot and its blocks into a folder, as on a USB stick",
		Long: `Write what terminals fetch over the network into a folder, usually on a USB stick: the
newest signed snapshot, the blocks that it lists with the hashes of their pieces, and the
signed policies that are named. For terminals that are named their peppers come with it,
sealed to each, and then only the blocks of their packs, unless --all is given.

Nothing on the stick is secret and nothing on it is believed without its signature or
hash. What lies there whole is not copied again. The snapshot is written last.`,
		Example: `  central stick make /media/usb/grattoir --terminal shop-0042 --policy 2026-1.policy
  terminalctl stick import /media/usb/grattoir`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				blocks, err := c.Blocks(ctx)
				if err != nil {
					return nil, nil, err
				}
				var bytes int64
				for _, b := range blocks {
					bytes += b.Size
				}
				progress := cli.NewProgress(os.Stderr, "bytes", bytes)
				o.Progress = func(n int64) { progress.Add(n) }
				s, err := c.WriteStick(ctx, args[0], o)
				return s, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s: snapshot %d, %d blocks of %d bytes, %d of them copied now, %d peppers, %d policies\n",
						args[0], s.Snapshot, s.Blocks, s.Bytes, s.Copied, s.Peppers, s.Policies)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringArrayVar(&o.Terminals, "terminal", nil, "a `terminal` that it is for; may be given several times")
	cmd.Flags().BoolVar(&o.All, "all", false, "every block, also where terminals are named")
	cmd.Flags().StringArrayVar(&o.Policies, "policy", nil, "`file` of a signed policy; may be given several times")
	f.flags(cmd)
	return cmd
}
