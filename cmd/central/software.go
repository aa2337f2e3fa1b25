package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/firmware/update"
	"grattoir/sync/central"
	"grattoir/validate/manifest"
)

func softwareSignCommand() *cobra.Command {
	var m update.Manifest
	var key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sign BUNDLE --version V --number N --board B --key FILE",
		Short: "Sign the manifest of a bundle, where releases are made",
		Long: `Write the signed manifest of a RAUC bundle beside it, as BUNDLE with .update for .raucb. The number rises from release
to release; once a terminal runs the update well, it never again runs a number below --floor. The key is the
release key whose public half lies in the image (/usr/lib/grattoir/update-keys): keep it off central.`,
		Example: `  central software sign grattoir-pi-1.4.0.raucb --version 1.4.0 --number 12 --floor 9 --board grattoir-pi --key release.key`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			stem, ok := strings.CutSuffix(args[0], update.BundleSuffix)
			if !ok || key == "" {
				return cli.Usagef("want a file whose name ends in %s, and --key", update.BundleSuffix)
			}
			signer, err := readSigner(key)
			if err != nil {
				return err
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if m, err = update.Describe(file, m); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			signed, err := update.Sign(m, signer)
			if err != nil {
				return err
			}
			if err := os.WriteFile(stem+update.ManifestSuffix, signed, 0o644); err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), bundleOf(m, "", ""))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s, number %d, floor %d, %d bytes, SHA-256 %s\n", stem+update.ManifestSuffix, m.Board, m.Version, m.Number, m.Floor, m.Size, m.SHA256)
			return err
		},
	}
	cmd.Flags().StringVar(&m.Version, "version", "", "the `version` for people, as 1.4.0")
	cmd.Flags().Int64Var(&m.Number, "number", 0, "its `number`, above that of every release before")
	cmd.Flags().Int64Var(&m.Floor, "floor", 0, "lowest `number` that may run after it")
	cmd.Flags().StringVar(&m.Board, "board", "", "RAUC's `compatible`, as grattoir-pi")
	cmd.Flags().StringVar(&key, "key", "", "secret key `file` of the release key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func bundleOf(m update.Manifest, signed, notes string) central.Bundle {
	return central.Bundle{Board: m.Board, Version: m.Version, Number: m.Number, Floor: m.Floor, SHA256: m.SHA256, Size: m.Size, Notes: notes, Manifest: signed}
}

func softwarePublishCommand() *cobra.Command {
	var f folder
	var operator, notes string
	var keys []string
	cmd := &cobra.Command{
		Use:   "publish BUNDLE --key FILE.pub --notes TEXT --operator NAME",
		Short: "Take an update into central; it is offered to nobody before it is rolled",
		Long: `Take a bundle and its signed manifest (central software sign) into central, and name it in the snapshot. It is offered
to nobody before central software roll. A version may have a bundle for each board: publish each.`,
		Example: `  central software publish grattoir-pi-1.4.0.raucb --key release.pub --notes "faster slips" --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" || len(keys) == 0 {
				return cli.Usagef("--operator or --key is missing: central keeps who published it, and takes what a release key has signed")
			}
			b, err := readBundle(args[0], keys, notes)
			if err != nil {
				return err
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.PublishUpdate(ctx, b, file, operator)
				return b, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s %s is published: number %d, %d bytes\nTry: central software roll %s --canaries 5 --operator %s\n", b.Board, b.Version, b.Number, b.Size, b.Version, operator)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&notes, "notes", "", "what is new in it, for operators")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key `file` of a release key (can be given again)")
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

// readBundle verifies the manifest beside a bundle.
func readBundle(path string, keys []string, notes string) (b central.Bundle, err error) {
	var public []string
	for _, k := range keys {
		text, err := cli.ReadPublicKey(k)
		if err != nil {
			return b, err
		}
		public = append(public, text)
	}
	ring, err := manifest.NewKeys(1, public...)
	if err != nil {
		return b, err
	}
	signed, err := cli.ReadBounded(strings.TrimSuffix(path, update.BundleSuffix)+update.ManifestSuffix, update.MaxManifest)
	if err != nil {
		return b, err
	}
	m, _, err := update.OpenManifest(signed, ring)
	if errors.Is(err, update.ErrManifest) {
		return b, cli.Exit(cli.Refused, err)
	}
	return bundleOf(m, string(signed), notes), err
}

func softwareRollCommand() *cobra.Command {
	var f folder
	var operator string
	var r central.Rollout
	cmd := &cobra.Command{
		Use:   "roll VERSION --canaries N | --percent P | --region R | --terminals T,... --operator NAME",
		Short: "Offer a version to more terminals",
		Long: `Offer a version to more terminals, from their next hello on, beside those that it is offered to already. Begin with
canaries, which the version's name chooses among the terminals that can take it; go on by percent, region or name.
When it has failed or was rolled back on more than --max-failed terminals it is halted by itself.`,
		Example: `  central software roll 1.4.0 --canaries 5 --operator anne
  central software roll 1.4.0 --percent 20 --max-failed 3 --operator anne
  central software roll 1.4.0 --terminals T-0001,T-0002 --operator anne`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who rolled it")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.Roll(ctx, args[0], r, operator)
				return r, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s is offered from the next hello on; central software show %s tells how far it has come\n", args[0], args[0])
					return err
				}, err
			})
		},
	}
	cmd.Flags().IntVar(&r.Canaries, "canaries", 0, "so many terminals in all")
	cmd.Flags().IntVar(&r.Percent, "percent", 0, "so many of a hundred terminals")
	cmd.Flags().StringVar(&r.Region, "region", "", "the terminals of a region")
	cmd.Flags().StringSliceVar(&r.Terminals, "terminals", nil, "these terminals")
	cmd.Flags().Int64Var(&r.MaxFailed, "max-failed", 0, "on so many terminals it may fail before it is halted by itself")
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

func softwareTurnCommand(use, short, long, done string, turn func(c *central.Central, ctx context.Context, version, why, operator string) error) *cobra.Command {
	var f folder
	var operator, why string
	cmd := &cobra.Command{
		Use:     use + " VERSION --reason TEXT --operator NAME",
		Short:   short,
		Long:    long,
		Example: `  central software ` + use + ` 1.4.0 --reason "slips are cut too soon" --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" || why == "" {
				return cli.Usagef("--operator or --reason is missing: central keeps who did it and why")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := turn(c, ctx, args[0], why, operator)
				return struct {
						Version string `json:"version"`
						Act     string `json:"act"`
					}{args[0], use}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s %s\n", args[0], done)
						return err
					}, err
			})
		},
	}
	cmd.Flags().StringVar(&why, "reason", "", "why, for whoever asks later")
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

func softwareHaltCommand() *cobra.Command {
	return softwareTurnCommand("halt", "Offer a version to nobody any more",
		"Offer a version to nobody any more. Terminals that have not restarted into it give it up at their next hello; those that run it go on.",
		"is offered to nobody any more", (*central.Central).HaltUpdate)
}

func softwareResumeCommand() *cobra.Command {
	return softwareTurnCommand("resume", "Offer a halted version again",
		"Offer a halted version again, to whom it was offered. The failures until now are forgiven; one more than --max-failed, or than those, halts it again.",
		"is offered again", (*central.Central).ResumeUpdate)
}

func softwareShowCommand() *cobra.Command {
	var f folder
	var each bool
	cmd := &cobra.Command{
		Use:   "show VERSION",
		Short: "Tell how far a version has come",
		Long:  `Tell how many terminals are in which state with regard to a version: each is in exactly one. --terminals lists them.`,
		Example: `  central software show 1.4.0
  central software show 1.4.0 --terminals`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				p, err := c.UpdateProgress(ctx, args[0])
				return p, func(w io.Writer) error { return printProgress(w, p, each) }, err
			})
		},
	}
	cmd.Flags().BoolVar(&each, "terminals", false, "list each terminal")
	f.flags(cmd)
	return cmd
}

func printProgress(w io.Writer, p central.Progress, each bool) error {
	for _, u := range p.Updates {
		fmt.Fprintf(w, "%s %s, number %d, floor %d: %s", u.Board, u.Version, u.Number, u.Floor, u.State)
		if u.Why != "" {
			fmt.Fprintf(w, " (%s)", cli.Line(u.Why))
		}
		fmt.Fprintln(w)
		if u.Notes != "" {
			fmt.Fprintf(w, "  %s\n", cli.Line(u.Notes))
		}
	}
	rows := [][]string{}
	for _, s := range central.SoftwareStates() {
		rows = append(rows, []string{s, fmt.Sprint(p.Counts[s])})
	}
	if err := table(w, "STATE TERMINALS", rows); err != nil || !each {
		return err
	}
	rows = rows[:0]
	for _, t := range p.Terminals {
		rows = append(rows, []string{t.Terminal, t.State, t.Runs, t.Changed, cli.Line(t.Reason)})
	}
	return table(w, "TERMINAL STATE RUNS CHANGED REASON", rows)
}
