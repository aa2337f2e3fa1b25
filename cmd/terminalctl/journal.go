package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/money"
)

func journalCommand() *cobra.Command {
	return cli.Group("journal", "Prove and read a terminal's journal (the daemon must be stopped)", journalVerifyCommand(), journalExportCommand())
}

type journalAnswer struct {
	OK       bool   `json:"ok"`
	Terminal string `json:"terminal"`
	Entries  int64  `json:"entries"`
	Claims   int64  `json:"claims"`
	Minor    int64  `json:"money_minor"`
	Head     string `json:"head"`
	Hash     string `json:"hash"`
}

// openJournal opens the ledger of a terminal that is not running. An existing file is
// wanted: looking must not make an empty one.
func openJournal(cmd *cobra.Command, path, terminal string) (*ledger.Ledger, error) {
	if terminal == "" {
		return nil, cli.Usagef("--terminal is missing: whose ledger is it?")
	}
	if err := isDatabase(path); err != nil {
		return nil, err
	}
	return ledger.Open(cmd.Context(), ledger.Options{Path: path, Terminal: terminal, Moment: func() ledger.Moment { return ledger.Moment{Device: time.Now()} }})
}

// isDatabase looks before a lock file is made beside something that is no ledger.
func isDatabase(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var magic [16]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "SQLite format 3\x00" {
		return fmt.Errorf("%s is no ledger: name the terminal's ledger.db", path)
	}
	return nil
}

func journalVerifyCommand() *cobra.Command {
	var terminal string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify LEDGER --terminal NAME",
		Short: "Walk the whole chain of entries and hold it against the claims",
		Long: `Walk the chain: every line is an entry of this terminal, numbers run without a gap,
each carries the hash of the one before, claims and entries agree. Entries cut off at
the end do not show here: a slip whose ledger number is above the head does.`,
		Example: `  terminalctl journal verify /var/lib/grattoir/ledger.db --terminal T-0001`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openJournal(cmd, args[0], terminal)
			if err != nil {
				return err
			}
			defer l.Close()
			c, err := l.Verify(cmd.Context())
			if err != nil {
				return err
			}
			a := journalAnswer{true, l.Terminal(), c.Entries, c.Claims, int64(c.Money), validate.EntryNumber{Epoch: c.Head.Epoch, Seq: c.Head.Seq}.String(), c.Head.Hash.String()}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the chain is whole: %d entries, %d payments of %s\nhead %s, hash %s\n",
				a.Entries, a.Claims, money.Text(c.Money, "EUR", money.English, money.Receipt), a.Head, a.Hash)
			return err
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "the terminal's `name`")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func journalExportCommand() *cobra.Command {
	var terminal string
	cmd := &cobra.Command{
		Use:   "export LEDGER --terminal NAME",
		Short: "Write the journal's exact bytes to standard output, an entry a line",
		Long: `Write every entry as it was hashed, one a line. Another tool checks the chain with
nothing but SHA-256: the hash of a line, without its line feed, is the prev of the next.`,
		Example: `  terminalctl journal export /var/lib/grattoir/ledger.db --terminal T-0001 > journal.jsonl`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openJournal(cmd, args[0], terminal)
			if err != nil {
				return err
			}
			defer l.Close()
			return export(cmd, l)
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "the terminal's `name`")
	return cmd
}

func export(cmd *cobra.Command, l *ledger.Ledger) error {
	w := bufio.NewWriter(cmd.OutOrStdout())
	err := l.Lines(cmd.Context(), l.Head().Epoch, 0, func(_ int64, line []byte) error {
		_, err := w.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return w.Flush()
}
