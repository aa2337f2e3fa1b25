package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/health"
)

const defaultConfig = "/etc/grattoir/terminald.toml"

func doctorCommand() *cobra.Command {
	var p patient
	var skip []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything a terminal needs and say what is wrong, daemon up or down",
		Long: `Look at the configuration, the data folder, the ledger, the keys, the devices and the
machine, one check each with what was seen and what to do. With the daemon up it is asked,
and nothing it has open is touched; with the daemon down the doctor opens the devices and
the ledger itself, to look, and changes nothing. It needs no network and no rights; what
this user may not see is said. terminalctl codes explains each code.

Exit status: 0 all is well, 3 a person should look, 1 nothing was found but not all could
be seen, 2 wrong usage.`,
		Example: `  terminalctl doctor
  sudo -u grattoir terminalctl doctor --config /etc/grattoir/terminald.toml --json
  terminalctl doctor --skip D12,D21`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := known(skip, health.Examinations()); err != nil {
				return err
			}
			r := p.examine(cmd.Context(), skip)
			if asJSON {
				return errors.Join(cli.JSON(cmd.OutOrStdout(), r), reportCode(r))
			}
			if err := printReport(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			return reportCode(r)
		},
	}
	p.flags(cmd)
	cmd.Flags().StringSliceVar(&skip, "skip", nil, "`codes` of checks to leave out")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// known refuses words that are no code or name of these checks.
func known(words []string, all []health.Meaning) error {
	for _, w := range words {
		if !slices.ContainsFunc(all, func(m health.Meaning) bool { return skips([]string{w}, m) }) {
			var codes []string
			for _, m := range all {
				codes = append(codes, m.Code+" "+m.Name)
			}
			return cli.Usagef("%.40q is none of them: %s", w, strings.Join(codes, ", "))
		}
	}
	return nil
}

// skips tells whether the words name a check by code or name.
func skips(words []string, m health.Meaning) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, m.Code) || strings.EqualFold(w, m.Name) })
}

// reportCode is the exit of a report: findings win over what could not be seen.
func reportCode(r health.Report) error {
	switch {
	case r.Findings() > 0:
		return cli.Exit(cli.Person, nil)
	case r.Unseen > 0:
		return cli.Exit(cli.Failed, nil)
	}
	return nil
}

// printReport prints a line for each check, and what to do below it.
func printReport(out io.Writer, r health.Report) error {
	var b strings.Builder
	name := r.Terminal
	if name == "" {
		name = "terminal without a name"
	}
	fmt.Fprintf(&b, "%s, %s, %s, daemon %s\n", name, r.Program, r.At.UTC().Format(withZone), r.Daemon)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-4s  %-4s %s: %s\n", mark(c.State), c.Code, c.Name, cli.Line(c.Detail))
		if c.Hint != "" {
			fmt.Fprintf(&b, "           -> %s\n", cli.Line(c.Hint))
		}
	}
	switch n := r.Findings(); {
	case n > 0:
		fmt.Fprintf(&b, "%d to look at, of %d\n", n, len(r.Checks))
	case r.Unseen > 0:
		fmt.Fprintf(&b, "nothing found, but %d of %d could not be seen\n", r.Unseen, len(r.Checks))
	default:
		fmt.Fprintf(&b, "all is well: %s\n", counted(len(r.Checks)))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// mark is a state in four columns, told by word and not by colour.
func mark(s health.State) string {
	switch s {
	case health.Warn:
		return "WARN"
	case health.Fail:
		return "FAIL"
	case health.Skipped:
		return "-"
	}
	return string(s)
}

func counted(checks int) string {
	if checks == 1 {
		return "1 check"
	}
	return fmt.Sprintf("%d checks", checks)
}
