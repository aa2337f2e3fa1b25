package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func auditCommand() *cobra.Command {
	return cli.Group("audit", "See who signed in, looked, exported and acted, and prove that nothing of it was changed", auditListCommand(), auditVerifyCommand())
}

func auditListCommand() *cobra.Command {
	var f folder
	var newest int
	var below int64
	cmd := &cobra.Command{
		Use:   "list [--newest N] [--below LINE]",
		Short: "List the newest lines of the audit, newest first",
		Example: `  central audit list --newest 20
  central audit list --below 4711 --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if newest < 1 || newest > 10_000 || below < 0 {
				return cli.Usagef("--newest %d --below %d: want 1 to 10000 lines, below a line's number", newest, below)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.NewestAudit(ctx, below, newest)
				return list, func(w io.Writer) error { return printAudit(w, list) }, err
			})
		},
	}
	cmd.Flags().IntVar(&newest, "newest", 100, "how many `lines`")
	cmd.Flags().Int64Var(&below, "below", 0, "only lines with a number below this `line`'s; 0 is all")
	f.flags(cmd)
	return cmd
}

func printAudit(w io.Writer, list []central.AuditLine) error {
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{fmt.Sprint(a.Seq), a.Time, a.Act, orDash(printable(a.Operator)), orDash(printable(a.About))})
	}
	return table(w, "LINE TIME ACT WHO ABOUT", rows)
}

func auditVerifyCommand() *cobra.Command {
	var f folder
	var noted string
	cmd := &cobra.Command{
		Use:   "verify [--noted LINE:HASH]",
		Short: "Verify that no line of the audit was changed or removed",
		Long: `Verify the chain from the first line to the newest, and print how many lines there are and the newest's
hash. Note both elsewhere: with --noted a later look proves that nothing was cut off the end meanwhile. The first line that
was altered is named, with exit status 1.`,
		Example: `  central audit verify
  central audit verify --noted 4711:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			number, hash, found := strings.Cut(noted, ":")
			line, err := strconv.ParseInt(number, 10, 64)
			if noted != "" && (!found || err != nil || line < 1 || len(hash) != 64) {
				return cli.Usagef("--noted %.90q: want a line and its hash as verify prints them, like 4711:9f86...", noted)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				h, err := verifyAudit(ctx, c, line, hash)
				return h, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "the audit is whole: %d lines, head %d:%s\n", h.Lines, h.Lines, h.Head)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&noted, "noted", "", "`LINE:HASH` that verify printed earlier")
	f.flags(cmd)
	return cmd
}

// verifyAudit walks the audit, and holds a head that was noted earlier against it, line 0
// for none.
func verifyAudit(ctx context.Context, c *central.Central, line int64, hash string) (central.AuditHead, error) {
	held := ""
	h, err := c.Audit(ctx, func(a central.AuditLine) error {
		if a.Seq == line+1 {
			held = a.Prev
		}
		return nil
	})
	if err != nil || line == 0 {
		return h, err
	}
	if h.Lines == line {
		held = h.Head
	}
	switch {
	case h.Lines < line:
		return h, fmt.Errorf("%w: it ends at line %d, and line %d was noted: its end was cut off", central.ErrAudit, h.Lines, line)
	case held != hash:
		return h, fmt.Errorf("%w: line %d has another hash than the one noted: it was written anew up to there", central.ErrAudit, line)
	}
	return h, nil
}
