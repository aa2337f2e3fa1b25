package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/report"
)

// reportFlags are the flags of `central report`.
type reportFlags struct {
	data, format, out        string
	terminal, game, from, to string
}

// making makes one kind of report.
type making func(context.Context, *sql.DB, report.Filter, time.Time) (report.Report, error)

func reportCommand() *cobra.Command {
	return cli.Group("report", "Report how the terminals are and what was paid", reportSyncCommand(), reportPayoutsCommand())
}

func reportSyncCommand() *cobra.Command {
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Report each terminal's contact, unsent entries, and what it is behind with",
		Long: `Report each terminal's state, last contact, unsent entries as it last told them, and
how far behind it is with what central published. The states add up to all terminals:

  missing      no contact for 24 hours or more
  late         no contact for 10 minutes or more
  never-seen   added, and no contact since
  suspended    by a person, or because its journal forked
  in-contact   a contact within the last 10 minutes

What was never told is shown as unknown (-, null in JSON, empty in CSV), not as zero.`,
		Example: `  central report sync
  central report sync --terminal shop-0042 --format json
  central report sync --format csv --out sync.csv --data /srv/central`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runReport(cmd, flags, report.Sync) },
	}
	flags.add(cmd)
	return cmd
}

func reportPayoutsCommand() *cobra.Command {
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "payouts",
		Short: "Report accepted claims by day, game, block and terminal, conflicts apart",
		Long: `Report accepted claims, their count and sum, by day, game, block and terminal. Claims
that central stored and did not credit stand beside them as conflicts, with the amount
that was claimed, and are never added to them. Each currency, and demonstration blocks,
have totals of their own.

A claim's day is that of its entry by the terminal's own clock, in Europe/Paris; a
clock that was wrong puts its claims on a wrong day. --from and --to are included.`,
		Example: `  central report payouts --from 2026-11-01 --to 2026-11-30
  central report payouts --game bingo --terminal shop-0042 --format json
  central report payouts --format csv --out payouts.csv --data /srv/central`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runReport(cmd, flags, report.Payouts) },
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.game, "game", "", "only this `game`, by its id")
	cmd.Flags().StringVar(&flags.from, "from", "", "only from this `day` on, like 2026-11-01")
	cmd.Flags().StringVar(&flags.to, "to", "", "only up to this `day`, included")
	return cmd
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.data, "data", defaultServing().Data, "central's `folder`")
	cmd.Flags().StringVar(&f.format, "format", string(report.Table), "`table`, json or csv")
	cmd.Flags().StringVar(&f.out, "out", "", "write to `FILE`, whole or not at all, for its owner only")
	cmd.Flags().StringVar(&f.terminal, "terminal", "", "only this `terminal`")
}

// filter reads what was typed. A flag given with nothing after it is a mistake, not no filter.
func (f *reportFlags) filter(cmd *cobra.Command) (report.Filter, error) {
	filter := report.Filter{Terminal: f.terminal, Game: f.game}
	for name, text := range map[string]string{"terminal": f.terminal, "game": f.game} {
		if cmd.Flags().Changed(name) && text == "" {
			return filter, cli.Usagef("--%s is empty: name one, or leave the flag out", name)
		}
	}
	for name, day := range map[string]struct {
		text string
		to   *report.Day
	}{"from": {f.from, &filter.From}, "to": {f.to, &filter.To}} {
		if !cmd.Flags().Changed(name) {
			continue
		}
		var err error
		if *day.to, err = report.ParseDay(day.text); err != nil {
			return filter, cli.Usagef("--%s: %w", name, err)
		}
	}
	return filter, nil
}

func runReport(cmd *cobra.Command, flags reportFlags, make making) (err error) {
	format := report.Format(flags.format)
	switch format {
	case report.Table, report.JSON, report.CSV:
	default:
		return cli.Usagef("--format %.40q: want table, json or csv", flags.format)
	}
	filter, err := flags.filter(cmd)
	if err != nil {
		return err
	}
	// A mistyped folder must not become a new central.
	if found, err := central.Exists(flags.data); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("no central in %s: name its folder with --data", flags.data)
	}
	c, err := central.Open(cmd.Context(), central.Options{Dir: flags.data})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r, err := make(cmd.Context(), c.Reader(), filter, time.Now())
	if errors.Is(err, report.ErrFilter) {
		return cli.Exit(cli.Usage, err)
	}
	if err != nil {
		return err
	}
	if flags.out == "" {
		return r.Write(cmd.OutOrStdout(), format)
	}
	if err := writePrivate(flags.out, func(w io.Writer) error { return r.Write(w, format) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Written: %s, %d rows\n", flags.out, len(r.Rows))
	return err
}

// writePrivate writes a file for its owner only, whole or not at all, and replaces the one that is there.
func writePrivate(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // made with mode 0600
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: the folder %s does not exist: make it first: %w", path, filepath.Dir(path), err)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := errors.Join(write(file), file.Chmod(0o600), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
