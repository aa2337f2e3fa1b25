package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func backupCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy central into a new folder, while it serves",
		Long: `Copy central's tables as they are at one moment, its keys and its blocks into a new folder, while
it serves. The tables become a SQLite file whichever database they lie in, and can be restored
into either. The folder holds central's private keys: keep it like them. A list with the hash of
each file is written last, so that a backup that was cut is none.`,
		Example: `  central backup /backup/2026-11-30 --data /srv/central`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				b, err := c.Backup(ctx, args[0])
				return b, func(w io.Writer) error { return printBackup(w, args[0], "holds", b) }, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func printBackup(w io.Writer, dir, what string, b central.Backed) error {
	var size int64
	for _, x := range b.Files {
		size += x.Size
	}
	_, err := fmt.Fprintf(w, "%s %s central %s of %s: %d files, %d bytes\n", dir, what, b.Central[:min(8, len(b.Central))], when(b.Made), len(b.Files), size)
	return err
}

func claimsCommand() *cobra.Command {
	var f folder
	var why string
	var force bool
	allow := &cobra.Command{
		Use:   "allow --why TEXT",
		Short: "Let a restored central allow online claims again",
		Long: `A central that was restored has forgotten what it allowed since the backup, and whoever was allowed may still
pay. Terminals tell it what they may pay, and it allows at once what nobody else can have been given. The
rest waits until all have told, or until a person answers for those that have not. --force does not wait for
terminals that will never be heard.`,
		Example: `  central claims allow --why 'all 412 terminals heard at 14:05; Mme Martin'`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.AllowClaims(ctx, why, force)
				return struct {
						Allowed bool `json:"allowed"`
					}{err == nil}, func(w io.Writer) error {
						_, err := fmt.Fprintln(w, "online claims are allowed again")
						return err
					}, err
			})
		},
	}
	f.flags(allow)
	allow.Flags().StringVar(&why, "why", "", "who decided it and `why`")
	allow.Flags().BoolVar(&force, "force", false, "though terminals were not heard")
	return cli.Group("claims", "Online claims after a restore, and of terminals that are lost", allow, claimsWaitingCommand(), claimsListCommand(), claimsFreeCommand())
}

func claimsWaitingCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "Tell which terminals a restored central waits for",
		Long: `Tell which terminals have not told a restored central what they may pay, or have not sent again what it lost, at
most 100.`,
		Example: `  central claims waiting`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				p, err := c.Waiting(ctx)
				answer := struct {
					Restored *central.PutBack `json:"restored"`
				}{p}
				return answer, func(w io.Writer) error { return printWaiting(w, p) }, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func printWaiting(w io.Writer, p *central.PutBack) error {
	if p == nil {
		_, err := fmt.Fprintln(w, "nothing waits: central was not put back, or every terminal was heard")
		return err
	}
	if _, err := fmt.Fprintf(w, "put back at %s from a backup of %s; terminals that were not heard: %d\n", p.At, orDash(p.Made), len(p.Unheard)); err != nil {
		return err
	}
	for _, name := range p.Unheard {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	if len(p.Unheard) == 0 && !p.Roster {
		_, err := fmt.Fprintln(w, "all that are known were heard; if none was enrolled since the backup: central claims allow")
		return err
	}
	return nil
}

func restoreCommand() *cobra.Command {
	var data, database string
	var asJSON, roster bool
	cmd := &cobra.Command{
		Use:   "restore DIR --data NEW",
		Short: "Make central again from a backup, in a new folder",
		Long: `Make central's folder from a backup, after each file was held against its hash, and its tables in a
SQLite file there, or in the empty PostgreSQL that --database names. The central that was lost must never
run again beside it. Terminals send again by themselves what was acknowledged since the backup; what
operations did since (packs, suspensions, enrolments) has to be done again.`,
		Example: `  central restore /backup/2026-11-30 --data /srv/central-new
  central restore /backup/2026-11-30 --data /srv/central-new --database 'postgres://central@/grattoir?host=/var/run/postgresql'`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return cli.Usagef("--data is needed: the new folder\nTry: %s --help", cmd.CommandPath())
			}
			b, err := central.Restore(central.Acting(cmd.Context(), "restore", actor(cmd), typed(cmd)), args[0], central.Options{Dir: data, Database: database}, roster)
			if errors.Is(err, central.ErrRefused) {
				return cli.Exit(cli.Refused, err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), b)
			}
			return printBackup(cmd.OutOrStdout(), data, "is", b)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "the new `folder` of central")
	cmd.Flags().StringVar(&database, "database", "", "an empty PostgreSQL as a `URL`; without it a SQLite file in the folder")
	cmd.Flags().BoolVar(&roster, "none-enrolled", false, "no terminal was enrolled since the backup: central then knows by itself when all were heard")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}
