package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func caCommand() *cobra.Command {
	return cli.Group("ca", "Replace central's CA and the key it signs with, while terminals learn the new ones", caShowCommand(), caRotateCommand())
}

// caAnswer is where a rotation stands.
type caAnswer struct {
	Rotation central.Rotation `json:"rotation"`
	Key      string           `json:"key"`    // public, signs now
	Untold   []string         `json:"untold"` // enrolled terminals that have not heard whom to believe now
}

func showCA(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
	at, err := c.Rotation()
	if err != nil {
		return nil, nil, err
	}
	list, err := c.Untold(ctx)
	a := caAnswer{at, c.PublicKey(), append([]string{}, list...)}
	return a, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "rotation: %s\nsigned by: %s\nnot told yet: %s\n", a.Rotation, a.Key, orDash(strings.Join(a.Untold, " ")))
		return err
	}, err
}

func caShowCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show where a rotation stands, and which terminals have not heard of it",
		Example: `  central ca show`,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.act(cmd, false, showCA) },
	}
	f.flags(cmd)
	return cmd
}

func caRotateCommand() *cobra.Command {
	var f folder
	var force bool
	cmd := &cobra.Command{
		Use:   "rotate begin|switch|end",
		Short: "Take the next step of a rotation; central serve is to be started again after each",
		Long: `Replace the CA and the key that signs acknowledgements and snapshots, in three steps with a restart of
central serve after each, and as much time between them as terminals sleep:
  begin   the new pair is made, and terminals hear of it over the old one
  switch  the new pair signs, the old one still counts; terminals renew their certificates
  end     the old pair is forgotten; the old key still proves what it signed
switch and end wait until every enrolled terminal has heard; central ca show names the others. With --force they
do not: such a terminal says that it does not know this central, and needs a new code. Codes and enrolment
files of before a switch do not work after it.`,
		Example: `  central ca rotate begin
  central ca show
  central ca rotate switch`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				var err error
				switch args[0] {
				case "begin":
					err = c.BeginRotation()
				case "switch":
					err = c.SwitchRotation(ctx, force)
				case "end":
					err = c.EndRotation(ctx, force)
				default:
					err = cli.Usagef("rotate %.20q: want begin, switch or end", args[0])
				}
				if err != nil {
					return nil, nil, err
				}
				at, err := c.Rotation()
				return caAnswer{Rotation: at, Key: c.PublicKey(), Untold: []string{}}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "rotation: %s\nstart central serve again now\n", at)
					return err
				}, err
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not wait for terminals that have not heard")
	f.flags(cmd)
	return cmd
}
