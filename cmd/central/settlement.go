package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

func settlementCommand() *cobra.Command {
	return cli.Group("settlement", "Close the shops' accounts for a period, and prove what was closed", settlementCloseCommand(), settlementListCommand(), settlementExportCommand(), settlementVerifyCommand())
}

// settlementAnswer is a closed period in the answers of the commands.
type settlementAnswer struct {
	Number   int64              `json:"number"`
	First    string             `json:"first"`
	Last     string             `json:"last"`
	Operator string             `json:"operator"`
	Closed   time.Time          `json:"closed"`
	Accounts int                `json:"accounts"`
	Totals   []settlementTotals `json:"totals"`
	File     string             `json:"file,omitempty"`
}

type settlementTotals struct {
	Currency   string `json:"currency"`
	Sales      int64  `json:"sales_minor"`
	Paid       int64  `json:"paid_minor"`
	Reversed   int64  `json:"reversed_minor"`
	Borne      int64  `json:"borne_minor"`
	Commission int64  `json:"commission_minor"`
	Correction int64  `json:"correction_minor"`
	Due        int64  `json:"due_minor"`
}

func answerSettlement(c report.Closed, file string) settlementAnswer {
	a := settlementAnswer{Number: c.Number, First: c.First.String(), Last: c.Last.String(), Operator: c.Operator, Closed: c.At, Accounts: len(c.Lines()), Totals: []settlementTotals{}, File: file}
	for _, t := range c.Totals {
		a.Totals = append(a.Totals, settlementTotals{t.Currency, t.Sales, t.Paid, t.Reversed, t.Borne, t.Commission, t.Correction, t.Due})
	}
	return a
}

// print writes a closed period for people: the formula, with its numbers.
func (a settlementAnswer) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "Settlement %d, %s to %s, closed %s by %s, %d accounts\n", a.Number, a.First, a.Last, when(a.Closed), printable(a.Operator), a.Accounts); err != nil {
		return err
	}
	for _, t := range a.Totals {
		sum := func(n int64) string { return money.Text(money.Amount(n), t.Currency, money.English, money.Receipt) }
		if _, err := fmt.Fprintf(w, "  due %s = sales %s - paid %s + taken back %s - borne %s - commission %s + correction %s\n", sum(t.Due), sum(t.Sales), sum(t.Paid),
			sum(t.Reversed), sum(t.Borne), sum(t.Commission), sum(t.Correction)); err != nil {
			return err
		}
	}
	return nil
}

func settlementCloseCommand() *cobra.Command {
	var f folder
	var from, to, operator, out string
	cmd := &cobra.Command{
		Use:   "close --from DAY --to DAY --operator NAME [--out FILE]",
		Short: "Close a period, signed, for ever",
		Long: `Close the period from a day to a day, both included, and sign what each terminal owes.
Periods are closed in turn, each from the day after the one before, once their last day is
over. A closed period never changes: what is found otherwise later is the correction of
the next one. central report settlement shows it before. --out writes its archive.`,
		Example: `  central settlement close --from 2026-11-01 --to 2026-11-30 --operator anne --out 2026-11.settlement`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			first, err := policy.ParseDate(from)
			if err != nil {
				return cli.Usagef("--from: %w", err)
			}
			last, err := policy.ParseDate(to)
			if err != nil {
				return cli.Usagef("--to: %w", err)
			}
			if operator == "" {
				return cli.Usagef("--operator is missing: who closes the period")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				var closed report.Closed
				s, err := c.CloseSettlement(ctx, first, last, operator, func(ctx context.Context, tx *sql.Tx, x central.Closing) (head, lines string, err error) {
					if closed, err = report.Close(ctx, tx, x.Number, x.Previous, x.First, x.Last, x.Operator, x.Closed); err != nil {
						return "", "", err
					}
					head, lines = closed.Texts()
					return head, lines, nil
				})
				if err == nil && out != "" {
					err = writeArchive(out, s)
				}
				a := answerSettlement(closed, out)
				return a, a.print, err
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `day`, like 2026-11-01")
	cmd.Flags().StringVar(&to, "to", "", "last `day`, included")
	cmd.Flags().StringVar(&operator, "operator", "", "`name` of who closes it")
	cmd.Flags().StringVar(&out, "out", "", "`file` of the archive, which must not exist")
	f.flags(cmd)
	return cmd
}

// writeArchive writes a closed period for a place where there is no central.
func writeArchive(path string, s central.Settlement) error {
	return writeNew(path, []byte(report.Archive(s.Note, s.Lines)), 0o600)
}

// listedSettlement is a closed period in the list.
type listedSettlement struct {
	Number   int64     `json:"number"`
	First    string    `json:"first"`
	Last     string    `json:"last"`
	Operator string    `json:"operator"`
	Closed   time.Time `json:"closed"`
}

func settlementListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the periods that were closed, the newest first",
		Example: `  central settlement list --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				closed, err := c.Settlements(ctx)
				list := []listedSettlement{}
				for _, s := range closed {
					list = append(list, listedSettlement{s.Number, s.First.String(), s.Last.String(), s.Operator, s.Closed})
				}
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, s := range list {
						rows = append(rows, []string{strconv.FormatInt(s.Number, 10), s.First, s.Last, when(s.Closed), printable(s.Operator)})
					}
					return table(w, "NUMBER FIRST LAST CLOSED OPERATOR", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func settlementExportCommand() *cobra.Command {
	var f folder
	var out string
	cmd := &cobra.Command{
		Use:     "export NUMBER --out FILE",
		Short:   "Write the archive of a closed period",
		Example: `  central settlement export 3 --out 2026-11.settlement`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || number < 1 {
				return cli.Usagef("%.40q: want the number of a settlement, as central settlement list shows it", args[0])
			}
			if out == "" {
				return cli.Usagef("--out is missing: the file of the archive, which must not exist")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				s, err := c.Settlement(ctx, number)
				if err != nil {
					return nil, nil, err
				}
				closed, _, err := report.OpenArchive([]byte(report.Archive(s.Note, s.Lines)), c.PublicKey())
				if err == nil {
					err = writeArchive(out, s)
				}
				a := answerSettlement(closed, out)
				return a, a.print, err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` of the archive, which must not exist")
	f.flags(cmd)
	return cmd
}

func settlementVerifyCommand() *cobra.Command {
	var keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE... --key KEY",
		Short: "Prove archives of closed periods, on any machine",
		Long: `Prove that central signed each archive, that every figure in it adds up, and, of several
in a row, that each goes on from the one before. It needs no central: KEY is central's
public key, as central ca show prints it, or a file of it.`,
		Example: `  central settlement verify 2026-10.settlement 2026-11.settlement --key central.pub`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(keys) == 0 {
				return cli.Usagef("--key is missing: central's public key, or a file of it")
			}
			list, err := verifySettlements(args, keys)
			if errors.Is(err, report.ErrClosed) {
				return cli.Exit(cli.Refused, err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			for _, a := range list {
				if err := a.print(cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Proven: %d\n", len(list))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "central's public `key` or its file; several where it was replaced")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// maxArchiveFile bounds what is read of one archive.
const maxArchiveFile = 64 << 20

func verifySettlements(files, keys []string) ([]settlementAnswer, error) {
	public := make([]string, len(keys))
	for i, k := range keys {
		public[i] = k
		if text, err := cli.ReadBounded(k, 4<<10); err == nil {
			public[i] = string(text)
		}
	}
	var list []settlementAnswer
	var before report.Closed
	var signed string
	for _, file := range files {
		text, err := cli.ReadBounded(file, maxArchiveFile)
		if err != nil {
			return nil, err
		}
		c, head, err := report.OpenArchive(text, public...)
		if err == nil && len(list) > 0 {
			err = c.Follows(before, signed)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, answerSettlement(c, file))
		before, signed = c, head
	}
	return list, nil
}
