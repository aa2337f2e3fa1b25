package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/validate/policy"
)

func policyPublishCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "publish FILE.policy --operator NAME",
		Short: "Give a signed policy to every terminal, by the snapshot",
		Long: `Give a signed policy to every terminal. A key that this central trusts (central block
publish --trust) must have signed it, and its version must be newer than every one
before. Terminals pay by it on its days, and by no part of it before all policies that
the snapshot lists have come.`,
		Example: `  central policy publish 2027-1.policy --operator anne
  central policy publish 2027-1.policy --operator anne --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who published it")
			}
			signed, err := cli.ReadBounded(args[0], policy.MaxText)
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				p, err := c.PublishPolicy(ctx, signed, operator)
				return p, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "policy %s is published: from %s until %s, signed by %s\n", p.Version, p.ValidFrom, orDash(p.ValidTo), strings.Join(p.SignedBy, ", "))
					return err
				}, err
			})
		},
	}
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

func policyListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the policies that were published, the newest version first",
		Example: `  central policy list
  central policy list --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Policies(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.Version, p.ValidFrom, orDash(p.ValidTo), orDash(strings.Join(p.SignedBy, ",")), when(p.Published), p.Operator, orDash(p.WithdrawnBy)})
					}
					return table(w, "VERSION FROM UNTIL SIGNED-BY PUBLISHED OPERATOR WITHDRAWN-BY", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func policyWithdrawCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "withdraw VERSION --operator NAME",
		Short: "Take a published policy back",
		Long: `Take a published policy back: terminals pay by it no more from the moment that they hear of it, and by
the newest one left whose days hold. A terminal with none left pays by its configuration. The version stays taken.`,
		Example: `  central policy withdraw 2027-1 --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who withdrew it")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				p, err := c.WithdrawPolicy(ctx, args[0], operator)
				return p, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "policy %s is withdrawn\n", p.Version)
					return err
				}, err
			})
		},
	}
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}
