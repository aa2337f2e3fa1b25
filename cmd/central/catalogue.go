package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate/game"
)

func catalogueCommand() *cobra.Command {
	return cli.Group("catalogue", "Give terminals the catalogue of games, by the snapshot", cataloguePublishCommand(), catalogueShowCommand())
}

func cataloguePublishCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "publish [FILE.toml...] --operator NAME",
		Short: "Give terminals a catalogue of games, in the place of the one before",
		Long: `Give terminals a catalogue of games, in the place of the one before: the games of this program, and those of
the files (central game import --out) in the place of games of the same id. A terminal knows the games of it from
then on, also those that are newer than its program.`,
		Example: `  central catalogue publish --operator anne
  central catalogue publish noel-2026.toml --operator anne`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who published it")
			}
			games, err := catalogueOf(args)
			if err != nil {
				return err
			}
			text, err := configs.EncodeCatalogue(games)
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				k, err := c.PublishCatalogue(ctx, text, len(games), operator)
				return k, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "a catalogue of %d games is published, %d bytes, SHA-256 %.8s\n", k.Games, k.Size, k.SHA256)
					return err
				}, err
			})
		},
	}
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

// catalogueOf are the shipped games, with those of files in the place of their like.
func catalogueOf(files []string) ([]game.Game, error) {
	games, err := configs.Games()
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		text, err := cli.ReadBounded(path, wire.MaxCatalogue)
		if err != nil {
			return nil, err
		}
		g, err := configs.DecodeGame(filepath.Base(path), text)
		if err != nil {
			return nil, err
		}
		at := 0
		for at < len(games) && games[at].ID != g.ID {
			at++
		}
		if at == len(games) {
			games = append(games, g)
		}
		games[at] = g
	}
	return games, nil
}

func catalogueShowCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Tell which catalogue terminals get, and its games",
		Example: `  central catalogue show --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				k, text, err := c.CatalogueText(ctx)
				if err != nil {
					return nil, nil, err
				}
				games, err := configs.DecodeCatalogue([]byte(text))
				return k, func(w io.Writer) error {
					rows := [][]string{}
					for _, g := range games {
						rows = append(rows, []string{g.ID, g.Name, string(g.Status), fmt.Sprint(len(g.Emissions))})
					}
					if _, err := fmt.Fprintf(w, "SHA-256 %s, %d bytes, published %s by %s\n", k.SHA256, k.Size, when(k.Published), k.Operator); err != nil {
						return err
					}
					return table(w, "GAME NAME STATUS EMISSIONS", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func softwareCommand() *cobra.Command {
	return cli.Group("software", "Publish updates, roll them out to terminals, and name releases in the snapshot", softwareSignCommand(), softwarePublishCommand(),
		softwareRollCommand(), softwareHaltCommand(), softwareResumeCommand(), softwareShowCommand(), softwareAnnounceCommand(), softwareListCommand(), softwareWithdrawCommand())
}

func softwareAnnounceCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "announce NAME VERSION FILE --operator NAME",
		Short: "Name a release to every terminal, by the hash of its file",
		Long: `Name a release to every terminal, by the hash and size of its file, in the signed snapshot. The file itself is
not sent: whoever installs it finds there whether it is the one that was announced.`,
		Example: `  central software announce terminald 1.4.0 terminald-1.4.0.raucb --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who announced it")
			}
			sum, size, err := hashOf(args[2])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				s, err := c.Announce(ctx, wire.Release{Name: args[0], Version: args[1], SHA256: sum, Size: size}, operator)
				return s, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s %s is announced: %d bytes, SHA-256 %s\n", s.Name, s.Version, s.Size, s.SHA256)
					return err
				}, err
			})
		},
	}
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

func hashOf(path string) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	h := sha256.New()
	size, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// listed is a release, with how its rollout stands where central has its bundle.
type listed struct {
	central.Software
	Number  int64                `json:"number,omitempty"`
	Rollout central.RolloutState `json:"rollout,omitempty"`
}

func listSoftware(ctx context.Context, c *central.Central) ([]listed, error) {
	releases, err1 := c.SoftwareList(ctx)
	updates, err2 := c.Updates(ctx)
	list := []listed{}
	for _, s := range releases {
		x := listed{Software: s}
		for _, u := range updates {
			if u.SHA256 == s.SHA256 {
				x.Number, x.Rollout = u.Number, u.State
			}
		}
		list = append(list, x)
	}
	return list, errors.Join(err1, err2)
}

func softwareListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the releases that were announced",
		Example: `  central software list --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := listSoftware(ctx, c)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, s := range list {
						rows = append(rows, []string{s.Name, s.Version, fmt.Sprint(s.Size), s.SHA256[:16], when(s.Announced), s.Operator, when(s.Withdrawn), string(s.Rollout)})
					}
					return table(w, "NAME VERSION BYTES SHA-256 ANNOUNCED OPERATOR WITHDRAWN ROLLOUT", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func softwareWithdrawCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "withdraw NAME VERSION",
		Short:   "Name a release no more",
		Example: `  central software withdraw terminald 1.4.0`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.WithdrawSoftware(ctx, args[0], args[1])
				return struct {
						Withdrawn string `json:"withdrawn"`
					}{args[0] + " " + args[1]}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s %s is named no more\n", args[0], args[1])
						return err
					}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
