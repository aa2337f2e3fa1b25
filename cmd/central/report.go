package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
)

// reportFlags are the flags of `central report`.
type reportFlags struct {
	data, format, out, lang, by                   string
	terminal, shop, region, game, block, from, to string
	asJSON                                        bool
}

func reportCommand() *cobra.Command {
	var children []*cobra.Command
	for _, a := range report.Kinds() {
		children = append(children, reportKindCommand(a))
	}
	children = append(children, reportAuditCommand())
	return cli.Group("report", "Report how terminals are, what was paid, is owed, left, in conflict, refused, away or odd", children...)
}

// reportWords are what --help says of each kind of report: in a sentence, at length, and by
// examples.
func reportWords() map[string][3]string {
	return map[string][3]string{
		"sync": {"Report each terminal's contact, unsent entries, and what it is behind with", `Report each terminal's state, last contact, unsent entries as it last told them, and
how far behind it is with what central published. The states add up to all terminals:

  missing      no contact for 24 hours or more
  late         no contact for 10 minutes or more
  never-seen   added, and no contact since
  suspended    by a person, or because its journal forked
  in-contact   a contact within the last 10 minutes

What was never told is shown as unknown (-, null in JSON, empty in CSV), not as zero.`,
			`  central report sync
  central report sync --terminal shop-0042 --format json
  central report sync --format csv --out sync.csv --data /srv/central`},
		"payouts": {"Report accepted claims by day, game, block and terminal or shop, conflicts apart", `Report accepted claims, their count and sum, by day, game, block and terminal, or by
what --by names. What was taken back of them stands beside them. Claims that central
stored and did not credit are conflicts, with the amount that was claimed, and are never
added. Each currency, and demonstration blocks, have totals of their own.

A claim's day is that of its entry by the terminal's own clock, in Europe/Paris; a
clock that was wrong puts its claims on a wrong day. --from and --to are included.`,
			`  central report payouts --from 2026-11-01 --to 2026-11-30
  central report payouts --by game,shop --format csv-fr --out paiements.csv
  central report payouts --game bingo --terminal shop-0042 --format json`},
		"settlement": {"Report what shops owe the lottery, or are owed, in a period", `Report, for each shop:

  due = sales - paid + taken back - borne by the lottery - commission + correction

Sales are the tickets of packs that were settled. Everything stands where central's clock
saw it. Without --from it goes on where the last closed period ended; what has changed
about closed periods since is the correction. central settlement close closes a period.`,
			`  central report settlement
  central report settlement --from 2026-11-01 --to 2026-11-30 --format xlsx --out november.xlsx
  central report settlement --by terminal --shop tabac-12`},
		"prizes": {"Report what is left to win, per block and tier", `Report the prizes of each block's table, how many were paid and are left, and how many of
those are uncertain: terminals that were not heard, or have entries to send, may have paid
them already.`,
			`  central report prizes --game bingo
  central report prizes --format json`},
		"liability": {"Report what may still have to be paid, per block", `Report, per block, tickets sold and on sale, the prizes that the sold ones hold by the
table's share, what was paid, what is unclaimed, and what has lapsed with the claim period.`,
			`  central report liability
  central report liability --game bingo --format xlsx --out liability.xlsx`},
		"inventory": {"Report where packs and tickets are", `Report packs and tickets of each block by the terminal that owns them: delivered, on sale,
settled, returned, stolen. Single tickets that came back or were stolen count there.`,
			`  central report inventory --shop tabac-12
  central report inventory --format csv --out stock.csv`},
		"conflicts": {"Report entries that were not credited, and how far their inquiry is", `Report each entry that was stored and not credited, with the accepted claim of the same
ticket if there is one. central conflict show has both proofs.`,
			`  central report conflicts --from 2026-11-01
  central report conflicts --region bzh --format xlsx --out conflicts.xlsx`},
		"refusals": {"Report how often which answer was given", `Report how often each terminal gave each answer, to codes that were scanned or typed, as
it tells; and the claims that central denied.`,
			`  central report refusals --from 2026-11-01
  central report refusals --by reason`},
		"signals": {"Report counts that chance does not explain", `Report counts at terminals, or of blocks, that are improbable where everybody behaves like
the rest of the fleet, and large. The score is minus the decimal logarithm of the
probability: 3 is once in a thousand. Each is a reason to look, never a proof. The exit
status is 3 where there is one.`,
			`  central report signals --from 2026-11-01
  central report signals --shop tabac-12 --format json`},
		"outages": {"Report times without contact and with faults, as evidence", `Report each time in which a terminal was not heard for 10 minutes or more, and each fault
that it told of, with its beginning and end by central's clock. --from and --to cut them.`,
			`  central report outages --from 2026-11-01 --to 2026-11-30
  central report outages --by terminal --format csv`},
	}
}

func reportKindCommand(a report.About) *cobra.Command {
	var flags reportFlags
	words := reportWords()[a.Name]
	cmd := &cobra.Command{Use: a.Name, Short: words[0], Long: words[1], Example: words[2], Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runReport(cmd, flags, a) }}
	cmd.Flags().StringVar(&flags.data, "data", defaultServing().Data, "central's `folder`")
	cmd.Flags().StringVar(&flags.format, "format", string(report.Table), "`table`, json, csv, csv-fr or xlsx")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "the same as --format json")
	cmd.Flags().StringVar(&flags.out, "out", "", "write to `FILE`, whole or not at all, for its owner only")
	cmd.Flags().StringVar(&flags.lang, "lang", string(money.English), "language of a table's or a workbook's words: `en` or fr")
	if a.By != nil {
		cmd.Flags().StringVar(&flags.by, "by", "", "what the rows are about, of: `"+strings.Join(a.By, ",")+"`")
	}
	for name, flag := range flags.filters() {
		if slices.Contains(a.Filters, name) {
			cmd.Flags().StringVar(flag.text, name, "", flag.help)
		}
	}
	return cmd
}

type filterFlag struct {
	text *string
	help string
}

// filters are the flags that choose rows, by the names that reports give them.
func (f *reportFlags) filters() map[string]filterFlag {
	return map[string]filterFlag{
		"terminal": {&f.terminal, "only this `terminal`"},
		"shop":     {&f.shop, "only the terminals of this `shop`"},
		"region":   {&f.region, "only the terminals of this `region`"},
		"game":     {&f.game, "only this `game`, by its id"},
		"block":    {&f.block, "only this block, by its `id`"},
		"from":     {&f.from, "only from this `day` on, like 2026-11-01"},
		"to":       {&f.to, "only up to this `day`, included"},
	}
}

// filter reads what was typed. A flag given with nothing after it is a mistake, not no filter.
func (f *reportFlags) filter(cmd *cobra.Command) (report.Filter, error) {
	filter := report.Filter{Terminal: f.terminal, Shop: f.shop, Region: f.region, Game: f.game, By: f.by}
	for name, flag := range f.filters() {
		if cmd.Flags().Changed(name) && *flag.text == "" {
			return filter, cli.Usagef("--%s is empty: name one, or leave the flag out", name)
		}
	}
	if f.block != "" {
		if err := filter.Block.UnmarshalText([]byte(f.block)); err != nil {
			return filter, cli.Usagef("--block: %w: central report prizes shows the ids", err)
		}
	}
	for name, day := range map[string]struct {
		text string
		to   *report.Day
	}{"from": {f.from, &filter.From}, "to": {f.to, &filter.To}} {
		if day.text == "" {
			continue
		}
		var err error
		if *day.to, err = report.ParseDay(day.text); err != nil {
			return filter, cli.Usagef("--%s: %w", name, err)
		}
	}
	return filter, nil
}

// form reads the format and the language.
func (f *reportFlags) form(cmd *cobra.Command) (report.Format, money.Language, error) {
	format, lang := report.Format(f.format), money.Language(f.lang)
	if f.asJSON {
		if cmd.Flags().Changed("format") && format != report.JSON {
			return "", "", cli.Usagef("--json and --format %.40s: name one of them", f.format)
		}
		format = report.JSON
	}
	switch {
	case !slices.Contains(report.Formats(), format):
		return "", "", cli.Usagef("--format %.40q: want table, json, csv, csv-fr or xlsx", f.format)
	case lang != money.English && lang != money.French:
		return "", "", cli.Usagef("--lang %.40q: want en or fr", f.lang)
	case format == report.XLSX && f.out == "":
		return "", "", cli.Usagef("--format xlsx writes a workbook, which is no text: name its file with --out")
	}
	return format, lang, nil
}

func runReport(cmd *cobra.Command, flags reportFlags, a report.About) (err error) {
	format, lang, err := flags.form(cmd)
	if err != nil {
		return err
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
	rows := 0
	err = audited(cmd, c, func(ctx context.Context) error {
		write := func(w io.Writer) (err error) {
			_, rows, err = report.Stream(ctx, c.Reader(), a.Name, filter, time.Now(), w, format, lang)
			return err
		}
		if flags.out == "" {
			return write(cmd.OutOrStdout())
		}
		err := writePrivate(flags.out, write)
		if err == nil {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Written: %s, %d rows\n", flags.out, rows)
		}
		return err
	})
	if errors.Is(err, report.ErrFilter) {
		return cli.Exit(cli.Usage, err)
	}
	if err == nil && a.Name == "signals" && rows > 0 {
		return cli.Exit(cli.Person, nil)
	}
	return err
}

func reportAuditCommand() *cobra.Command {
	var data string
	var asJSON, again bool
	cmd := &cobra.Command{Use: "audit", Short: "Hold the sums that reports read against the claims",
		Long: `Count every accepted claim, and hold the sums that central keeps of them for its reports
against what they come to. The exit status is 3 where one is wrong. With --again the sums
are made anew out of the claims first; terminals wait meanwhile.`,
		Example: `  central report audit
  central report audit --again --data /srv/central`, Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if found, err := central.Exists(data); err != nil {
				return err
			} else if !found {
				return fmt.Errorf("no central in %s: name its folder with --data", data)
			}
			c, err := central.Open(cmd.Context(), central.Options{Dir: data})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			var a central.SumAudit
			if err := audited(cmd, c, func(ctx context.Context) (err error) {
				if again {
					if err := c.CountClaims(ctx); err != nil {
						return err
					}
				}
				a, err = c.AuditSums(ctx)
				return err
			}); err != nil {
				return err
			}
			return showAudit(cmd, a, asJSON)
		}}
	cmd.Flags().StringVar(&data, "data", defaultServing().Data, "central's `folder`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "JSON in place of text")
	cmd.Flags().BoolVar(&again, "again", false, "make the sums anew first")
	return cmd
}

func showAudit(cmd *cobra.Command, a central.SumAudit, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(a); err != nil {
			return err
		}
	} else {
		if _, err := fmt.Fprintf(out, "%d claims, %d sums, %d of them wrong\n", a.Claims, a.Sums, a.Wrong); err != nil {
			return err
		}
		for _, d := range a.Differences {
			if _, err := fmt.Fprintf(out, "%s: %s: kept %s, the claims come to %s\n", d.Table, d.About, d.Kept, d.Counted); err != nil {
				return err
			}
		}
	}
	if a.Wrong > 0 {
		return cli.Exit(cli.Person, errors.New("sums are not what the claims come to: see who wrote to the tables, then central report audit --again"))
	}
	return nil
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
