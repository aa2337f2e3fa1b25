package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/validate"
	"grattoir/validate/money"
)

func journalCommand() *cobra.Command {
	return cli.Group("journal", "Prove and read a terminal's journal", journalVerifyCommand(), journalExportCommand())
}

type journalAnswer struct {
	OK       bool          `json:"ok"` // the chain is whole, and so are the audits that lie beside it
	Terminal string        `json:"terminal"`
	Entries  int64         `json:"entries"`
	Claims   int64         `json:"claims"`
	Minor    int64         `json:"money_minor"`
	Head     string        `json:"head"`
	Hash     string        `json:"hash"`
	Device   int64         `json:"device_signed"`  // newest entry that the terminal's signature covers, verified; 0 for none
	Central  int64         `json:"central_signed"` // the same of central's
	Audits   []auditAnswer `json:"audits"`
}

// auditAnswer is an audit beside the ledger.
type auditAnswer struct {
	Audit   string `json:"audit"`
	File    string `json:"file"`
	Lines   int64  `json:"lines"`
	Noted   int64  `json:"noted"` // the newest line that the journal notes
	Finding string `json:"finding,omitempty"`
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
	var terminal, central, operators, identities string
	var device []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify LEDGER --terminal NAME [--device-key FILE] [--central-key FILE]",
		Short: "Walk the whole chain of entries and hold it against the claims, its signatures and the audits beside it",
		Long: `Walk the chain: every line is an entry of this terminal, numbers run without a gap,
each carries the hash of the one before, claims and entries agree. The signatures are
verified with the keys that are given, which must not come from the terminal's disk. The
audits of operators and identities are held against what the journal notes of them, so
that lines cut off or written anew show: status 3. Entries cut off at the journal's own
end show where a signature or a slip names a number above the head. A program that runs
on the ledger is not disturbed.`,
		Example: `  terminalctl journal verify /var/lib/grattoir/ledger.db --terminal T-0001
  terminalctl journal verify ledger.db --terminal T-0001 --device-key T-0001.pem --central-key central.pub`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if terminal == "" {
				return cli.Usagef("--terminal is missing: whose ledger is it?")
			}
			keys, err := archiveKeys(device, central)
			if err != nil {
				return err
			}
			files := auditFiles(args[0], operators, identities)
			a, err := verifyJournal(cmd.Context(), args[0], terminal, keys, files)
			if err != nil {
				return err
			}
			return printJournal(cmd, a, asJSON)
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "the terminal's `name`")
	cmd.Flags().StringArrayVar(&device, "device-key", nil, "the terminal's public key or certificate, a PEM `file`; again for those of earlier enrolments")
	cmd.Flags().StringVar(&central, "central-key", "", "central's public key, a `file` in note format")
	cmd.Flags().StringVar(&operators, "operators", "", "the operators' `file` (people.db beside the ledger)")
	cmd.Flags().StringVar(&identities, "identities", "", "the register's `file` (register.db beside the ledger)")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// auditFile is where an audit is looked for.
type auditFile struct{ audit, path string }

// auditFiles are those that were named, else those beside the ledger.
func auditFiles(book, operators, identities string) []auditFile {
	if operators == "" {
		operators = filepath.Join(filepath.Dir(book), "people.db")
	}
	if identities == "" {
		identities = filepath.Join(filepath.Dir(book), "register.db")
	}
	return []auditFile{{"operators", operators}, {"identities", identities}}
}

func verifyJournal(ctx context.Context, path, terminal string, keys ledger.Keys, files []auditFile) (journalAnswer, error) {
	i, err := ledger.Inspect(ctx, path)
	if err != nil {
		return journalAnswer{}, err
	}
	defer i.Close()
	if i.Terminal() != terminal {
		return journalAnswer{}, fmt.Errorf("%s is the ledger of terminal %q, not of %q", path, i.Terminal(), terminal)
	}
	p, err := i.Prove(ctx, keys)
	if err != nil {
		return journalAnswer{}, err
	}
	a := journalAnswer{OK: true, Terminal: terminal, Entries: p.Entries, Claims: p.Claims, Minor: int64(p.Money),
		Head: validate.EntryNumber{Epoch: p.Head.Epoch, Seq: p.Head.Seq}.String(), Hash: p.Head.Hash.String(), Audits: []auditAnswer{}}
	now := p.Epochs[len(p.Epochs)-1]
	if now.Device.Verified {
		a.Device = now.Device.Seq
	}
	if now.Central.Verified {
		a.Central = now.Central.Seq
	}
	noted, err := i.AuditHeads(ctx)
	if err != nil {
		return a, err
	}
	for _, f := range files {
		found, err := checkAudit(ctx, f, terminal, noted)
		if err != nil {
			return a, err
		}
		if found != nil {
			a.Audits = append(a.Audits, *found)
			a.OK = a.OK && found.Finding == ""
		}
	}
	return a, nil
}

// checkAudit is nil for an audit that is not here and that the journal does not name.
func checkAudit(ctx context.Context, f auditFile, terminal string, noted []ledger.NotedAudit) (*auditAnswer, error) {
	a := auditAnswer{Audit: f.audit, File: f.path}
	for _, n := range noted {
		if n.Audit == f.audit {
			a.Noted = n.Seq
		}
	}
	c, err := people.CheckAudit(ctx, f.path, terminal, noted)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.Noted == 0:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		a.Finding = fmt.Sprintf("the journal notes line %d and the file is not here: name it with --%s", a.Noted, f.audit)
	case err != nil:
		return nil, fmt.Errorf("audit of %s: %w", f.audit, err)
	case c.Audit != f.audit:
		return nil, cli.Usagef("%s holds the %s, want the %s", f.path, c.Audit, f.audit)
	case c.Broken != nil:
		a.Lines, a.Finding = c.Lines, c.Broken.Error()
	default:
		a.Lines = c.Lines
	}
	return &a, nil
}

func printJournal(cmd *cobra.Command, a journalAnswer, asJSON bool) error {
	code := cli.Done
	if !a.OK {
		code = cli.Person
	}
	out := cmd.OutOrStdout()
	if asJSON {
		return errors.Join(cli.JSON(out, a), cli.Exit(code, nil))
	}
	fmt.Fprintf(out, "the chain is whole: %d entries, %d payments of %s\nhead %s, hash %s\n",
		a.Entries, a.Claims, money.Text(money.Amount(a.Minor), "EUR", money.English, money.Receipt), a.Head, a.Hash)
	for _, s := range []struct {
		of, flag string
		seq      int64
	}{{"the terminal", "--device-key", a.Device}, {"central", "--central-key", a.Central}} {
		if s.seq > 0 {
			fmt.Fprintf(out, "signed by %s up to entry %d\n", s.of, s.seq)
		} else {
			fmt.Fprintf(out, "no signature of %s is verified (%s)\n", s.of, s.flag)
		}
	}
	for _, x := range a.Audits {
		if x.Finding != "" {
			fmt.Fprintf(out, "audit of %s, %s: FINDING: %s\n", x.Audit, x.File, x.Finding)
		} else {
			fmt.Fprintf(out, "audit of %s: whole, %d lines; none up to line %d was changed or cut off\n", x.Audit, x.Lines, x.Noted)
		}
	}
	return cli.Exit(code, nil)
}

func journalExportCommand() *cobra.Command {
	var terminal string
	cmd := &cobra.Command{
		Use:   "export LEDGER --terminal NAME",
		Short: "Write the journal's exact bytes to standard output, an entry a line",
		Long: `Write every entry as it was hashed, one a line. The daemon must be stopped. Another tool checks the chain with
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
