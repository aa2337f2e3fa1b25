package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/scanner"
	"grattoir/device/terminal"
	"grattoir/firmware/flash"
	"grattoir/firmware/provision"
	"grattoir/sync/ledger/people"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/money"
)

func codesCommand() *cobra.Command {
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use:   "codes [CODE...]",
		Short: "Say what a code means that was read out by phone",
		Long: `Say what the codes mean that screens, slips, the doctor and the self-test show: what the
clerk reads, in French and English, and what the technician should know. A letter alone
names its whole family.`,
		Example: `  terminalctl codes P2
  terminalctl codes V
  terminalctl codes --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			list := codes()
			if len(args) > 0 {
				wanted, err := choose(list, args)
				if err != nil {
					return err
				}
				list = wanted
			}
			switch {
			case asJSON:
				return cli.JSON(cmd.OutOrStdout(), list)
			case asMarkdown:
				_, err := io.WriteString(cmd.OutOrStdout(), codesMarkdown(list))
				return err
			}
			return printCodes(cmd.OutOrStdout(), list)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print the table as it lies in device/health/CODES.md")
	return cmd
}

// codeRow is one row of the table.
type codeRow struct {
	Code       string `json:"code"`
	Part       string `json:"part"`     // what speaks
	ClerkFR    string `json:"clerk_fr"` // "" where no clerk sees it
	ClerkEN    string `json:"clerk_en"`
	Technician string `json:"technician"`
}

// codes are all codes of the terminal, from the tables of the parts that show them.
func codes() []codeRow {
	var all []codeRow
	add := func(part string, f terminal.Fault) {
		all = append(all, codeRow{f.Code, part, oneLine(f.ClerkFR), oneLine(f.ClerkEN), oneLine(f.Technician)})
	}
	for _, r := range validate.Reasons() {
		fr, en := r.Text(money.French), r.Text(money.English)
		add("verdict "+string(r), terminal.Fault{Code: r.Code(), ClerkFR: fr.Word + " : " + fr.Clerk, ClerkEN: en.Word + ": " + en.Clerk, Technician: r.Technician()})
	}
	for _, n := range validate.PackNotes() {
		fr, en := n.Text(money.French), n.Text(money.English)
		add(string(n), terminal.Fault{Code: n.Code(), ClerkFR: fr.Word + " : " + fr.Clerk, ClerkEN: en.Word + ": " + en.Clerk, Technician: n.Technician()})
	}
	for _, f := range terminal.Faults() {
		add("counter", f)
	}
	add("scanner", *health.Connecting())
	for _, f := range scanner.Faults() {
		add("scanner", terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician})
	}
	for _, f := range printer.Faults() {
		add("printer", terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician})
	}
	for _, f := range gpio.Faults() {
		add("pins", terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician})
	}
	for _, f := range health.Conditions() {
		add(map[byte]string{'L': "ledger", 'H': "clock", 'R': "limits"}[f.Code[0]], f)
	}
	for _, m := range people.Messages() {
		add(map[byte]string{'O': "operators", 'I': "identities"}[m.Code[0]], terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Technician})
	}
	for _, m := range uplink.Meanings() {
		add("link to central", terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Text})
	}
	for _, m := range health.Examinations() {
		add("doctor, "+m.Name, terminal.Fault{Code: m.Code, Technician: m.Text})
	}
	add("self-test", *health.Sale())
	for _, m := range health.Trials() {
		add("self-test, "+m.Name, terminal.Fault{Code: m.Code, Technician: m.Text})
	}
	for _, m := range flash.Meanings() {
		add("flashing, "+m.Name, terminal.Fault{Code: m.Code, Technician: m.Text + " " + m.Hint})
	}
	for _, m := range provision.Meanings() {
		add("provisioning, "+m.Name, terminal.Fault{Code: m.Code, Technician: m.Text})
	}
	slices.SortStableFunc(all, byCode)
	return all
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// byCode orders by letter, then by number.
func byCode(a, b codeRow) int {
	return cmp.Or(cmp.Compare(a.Code[0], b.Code[0]), cmp.Compare(codeNumber(a.Code), codeNumber(b.Code)))
}

func codeNumber(code string) int {
	n, _ := strconv.Atoi(code[1:])
	return n
}

// choose takes the rows that the words name: a code, or a letter for all of its family.
func choose(list []codeRow, words []string) (out []codeRow, err error) {
	for _, w := range words {
		found := false
		for _, r := range list {
			if strings.EqualFold(r.Code, w) || len(w) == 1 && strings.EqualFold(r.Code[:1], w) {
				out, found = append(out, r), true
			}
		}
		if !found {
			return nil, cli.Usagef("%.20q is no code of this terminal: a letter and a number, as P2; terminalctl codes lists all", w)
		}
	}
	return out, nil
}

func printCodes(out io.Writer, list []codeRow) error {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%-4s %s\n", r.Code, r.Part)
		if r.ClerkFR != "" {
			fmt.Fprintf(&b, "     fr  %s\n     en  %s\n", r.ClerkFR, r.ClerkEN)
		}
		fmt.Fprintf(&b, "     ->  %s\n", r.Technician)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// codesMarkdown is the technician's page of codes.
func codesMarkdown(list []codeRow) string {
	var b strings.Builder
	b.WriteString("# Codes\n\nWhat screens, slips, `terminalctl doctor` and `terminalctl selftest` show, for the phone. " +
		"Written by `terminalctl codes --markdown`; a test fails when it differs.\n")
	letter := byte(0)
	for _, r := range list {
		if r.Code[0] != letter {
			letter = r.Code[0]
			fmt.Fprintf(&b, "\n## %c\n\n| code | of | the clerk reads | for the technician |\n| --- | --- | --- | --- |\n", letter)
		}
		clerk := cell(r.ClerkFR)
		if r.ClerkEN != "" {
			clerk += "<br>" + cell(r.ClerkEN)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Code, cell(r.Part), clerk, cell(r.Technician))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
