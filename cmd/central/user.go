package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func userCommand() *cobra.Command {
	return cli.Group("user", "Say who may use the console, and as what", userAddCommand(), userListCommand(), userRoleCommand(), userPasswordCommand(),
		userStateCommand("suspend", "Let a user sign in no more, and end the sessions of that user", "is suspended", (*central.Central).SuspendUser),
		userStateCommand("resume", "Let a suspended user sign in again", "may sign in again", (*central.Central).ResumeUser))
}

// machineUser names for the audit who runs a command here. Whoever may read central's folder
// needs no password: everything is his already.
func machineUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username + " (command)"
	}
	return fmt.Sprintf("uid %d (command)", os.Getuid())
}

// askPassword reads a password from the terminal with no echo, or as a line of standard input.
func askPassword(cmd *cobra.Command, what string) (string, error) {
	text, err := cli.AskHidden(cmd.Context(), cmd.ErrOrStderr(), what)
	if errors.Is(err, cli.ErrNoTerminal) {
		if text, err = cli.HiddenLine(cmd.InOrStdin()); errors.Is(err, io.EOF) {
			return "", cli.Usagef("%s: type it, or give it as a line of standard input", what)
		}
		text = strings.TrimSuffix(text, "\r")
	}
	return text, err
}

// askNewPassword asks twice where a person types.
func askNewPassword(cmd *cobra.Command, name string) (central.Password, error) {
	what := "New password of " + name
	text, err := askPassword(cmd, what)
	if err != nil {
		return central.Password{}, err
	}
	p, err := central.NewPassword(text)
	if err != nil {
		return p, cli.Exit(cli.Refused, err)
	}
	again, err := cli.AskHidden(cmd.Context(), cmd.ErrOrStderr(), what+", again")
	if errors.Is(err, cli.ErrNoTerminal) {
		return p, nil
	}
	if err == nil && again != text {
		err = cli.Usagef("%s: the two are not the same", what)
	}
	return p, err
}

type userAnswer struct {
	User string       `json:"user"`
	Role central.Role `json:"role,omitempty"`
	Done string       `json:"done"`
}

// print says what was done. It is the text of an act's answer.
func (a userAnswer) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %s\n", printable(a.User), a.Done)
	return err
}

func userAddCommand() *cobra.Command {
	var f folder
	var role string
	cmd := &cobra.Command{
		Use:   "add NAME --role viewer|operator|security|auditor",
		Short: "Make a user of the console",
		Long: `Make a user. The password is asked for, or is a line of standard input: 12 characters or more. A viewer
sees and exports the reports; an operator also acts; security also looks at winners' identities, two persons for each; an
auditor also reads the audit, and does nothing.`,
		Example: `  central user add claire --role operator
  pass grattoir/denis | central user add denis --role security`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := central.ParseRole(role)
			if err != nil {
				return cli.Usagef("--role: %w", err)
			}
			p, err := askNewPassword(cmd, args[0])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				a := userAnswer{args[0], r, "was added as " + role}
				return a, a.print, c.AddUser(ctx, machineUser(), args[0], r, p)
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "what the user may do, a `role`")
	f.flags(cmd)
	return cmd
}

func userListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the users of the console",
		Example: `  central user list`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Users(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, u := range list {
						rows = append(rows, []string{u.Name, string(u.Role), map[bool]string{true: "suspended", false: "-"}[u.Suspended], when(u.Added)})
					}
					return table(w, "NAME ROLE STATE ADDED", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func userRoleCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "role NAME ROLE",
		Short:   "Give a user another role, and end the sessions of that user",
		Example: `  central user role claire security`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := central.ParseRole(args[1])
			if err != nil {
				return cli.Exit(cli.Usage, err)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				a := userAnswer{args[0], r, "is " + args[1]}
				return a, a.print, c.SetRole(ctx, machineUser(), args[0], r)
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func userPasswordCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "password NAME",
		Short:   "Give a user another password, and end the sessions of that user",
		Example: `  central user password claire`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := askNewPassword(cmd, args[0])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				a := userAnswer{User: args[0], Done: "has a new password"}
				return a, a.print, c.SetPassword(ctx, machineUser(), args[0], p)
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func userStateCommand(name, short, done string, do func(*central.Central, context.Context, string, string) error) *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     name + " NAME",
		Short:   short,
		Example: "  central user " + name + " claire",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				a := userAnswer{User: args[0], Done: done}
				return a, a.print, do(c, ctx, machineUser(), args[0])
			})
		},
	}
	f.flags(cmd)
	return cmd
}
