package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/validate/money"
)

type archiveAnswer struct {
	File    string `json:"file"`
	Year    int    `json:"year"`
	From    string `json:"from"`
	To      string `json:"to"`
	SHA256  string `json:"sha256"`
	Central bool   `json:"countersigned"`
}

func archiveCommand() *cobra.Command {
	var terminal, operator, out string
	var year int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "archive LEDGER --terminal NAME --operator WHO --year Y --out FILE",
		Short: "Write the archive of a closed year, with its proof",
		Long: `Write every line of the journal of a year that was closed, with its closings, the
terminal's signatures, central's countersignature and a README that says how to verify it
with common tools, as one tar file. terminald must be stopped: the journal records that
the archive was made.`,
		Example: `  terminalctl archive /var/lib/grattoir/ledger.db --terminal T-0001 --operator paul --year 2026 --out T-0001-2026.tar
  terminalctl archive verify T-0001-2026.tar --device-key device.pem --central-key central.pub`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if year < 1970 || year > 9999 || out == "" || operator == "" {
				return cli.Usagef("--year, --out and --operator are needed: which year, into which file, and who does it\nTry: %s --help", cmd.CommandPath())
			}
			l, err := openJournal(cmd, args[0], terminal)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			a, err := makeArchive(cmd, l, year, out, operator)
			if errors.Is(err, ledger.ErrNoClosing) {
				return cli.Exit(cli.Refused, fmt.Errorf("%w: terminalctl closing z year first", err))
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			countersigned := "countersigned by central"
			if !a.Central {
				countersigned = "NOT countersigned by central: the terminal's own signature holds; where there is a central, make it again once it has answered"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: year %d, entries %s to %s, %s\nsha256 %s\n", a.File, a.Year, a.From, a.To, countersigned, a.SHA256)
			return err
		},
	}
	cmd.Flags().IntVar(&year, "year", 0, "the `year`, as its closing is called")
	cmd.Flags().StringVar(&out, "out", "", "the new `file`")
	cmd.Flags().StringVar(&terminal, "terminal", "", "the terminal's `name`")
	cmd.Flags().StringVar(&operator, "operator", "", "`who` makes it")
	jsonFlag(cmd, &asJSON)
	cmd.AddCommand(archiveVerifyCommand())
	return cmd
}

// makeArchive writes the file whole or not at all, reads it back, and records it.
func makeArchive(cmd *cobra.Command, l *ledger.Ledger, year int, out, operator string) (a archiveAnswer, err error) {
	if _, err := os.Lstat(out); err == nil {
		return a, cli.Usagef("--out %s: the file exists", out)
	}
	part := out + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return a, err
	}
	defer func() { _ = os.Remove(part) }()
	w := bufio.NewWriterSize(f, 1<<20)
	body, err := l.Archive(cmd.Context(), year, w)
	if err != nil {
		return a, errors.Join(err, f.Close())
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		return a, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, 0); err != nil {
		return a, errors.Join(err, f.Close())
	}
	proof, err := ledger.VerifyArchive(bufio.NewReaderSize(f, 1<<20), ledger.Keys{})
	if err := errors.Join(err, f.Close()); err != nil {
		return a, fmt.Errorf("the file just written does not verify: %w", err)
	}
	if err := os.Rename(part, out); err != nil {
		return a, err
	}
	if err := syncFolder(filepath.Dir(out)); err != nil {
		return a, err
	}
	body.Operator = operator
	if err := l.AppendArchive(cmd.Context(), body); err != nil {
		return a, fmt.Errorf("%s is whole, but the journal has no record of it: %w", out, err)
	}
	return archiveAnswer{File: out, Year: year, From: body.From.String(), To: body.To.String(), SHA256: body.SHA256, Central: proof.CentralNote}, nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type archiveProofAnswer struct {
	OK       bool   `json:"ok"` // whole, and signed with the keys that were given
	Terminal string `json:"terminal"`
	Year     int    `json:"year"`
	From     string `json:"from"`
	To       string `json:"to"`
	Entries  int64  `json:"entries"`
	Closings int64  `json:"closings"`
	SHA256   string `json:"sha256"`
	Device   bool   `json:"device_signature_verified"`
	Central  bool   `json:"central_signature_verified"`
}

func archiveVerifyCommand() *cobra.Command {
	var flags keyFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify an archive on any machine, and add up every closing in it again",
		Long: `Verify an archive: its hashes, the chain of its lines, every closing against the lines
before it, and the signatures. The keys must not come from where the file came from: the
terminal's key (or certificate) and central's key, both from central operations. Without
them the file is only shown to fit itself, and the exit status is 3.`,
		Example: `  terminalctl archive verify T-0001-2026.tar --device-key device.pem --central-key central.pub`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := flags.read()
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			p, err := ledger.VerifyArchive(bufio.NewReaderSize(f, 1<<20), keys)
			if err != nil {
				return err
			}
			return printProof(cmd, p, asJSON)
		},
	}
	flags.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printProof(cmd *cobra.Command, p ledger.ArchiveProof, asJSON bool) error {
	out := cmd.OutOrStdout()
	a := archiveProofAnswer{p.Device && p.Central, p.Terminal, p.Year, p.From.String(), p.To.String(), p.Entries, p.Closings, p.SHA256, p.Device, p.Central}
	code := cli.Done
	if !a.OK {
		code = cli.Person
	}
	if asJSON {
		return errors.Join(cli.JSON(out, a), cli.Exit(code, nil))
	}
	fmt.Fprintf(out, "the archive is whole: terminal %s, year %d, entries %s to %s, %d closings that add up\n", a.Terminal, a.Year, a.From, a.To, a.Closings)
	for _, t := range p.Closing.Totals {
		fmt.Fprintf(out, "paid in the year: %d, %s\n", t.Paid.Count, money.Text(t.Paid.Money, t.Currency, money.English, money.Receipt))
	}
	if p.Device {
		fmt.Fprintln(out, "the year's closing is signed with the terminal's key: no line before it was changed without that key")
	} else {
		fmt.Fprintln(out, "the terminal's signature is NOT verified (--device-key): somebody could have made all of it anew")
	}
	switch {
	case p.Central:
		fmt.Fprintf(out, "central countersigned it on %s\n", p.CentralTime.UTC().Format(withZone))
	case p.CentralNote:
		fmt.Fprintln(out, "central's countersignature is NOT verified (--central-key)")
	default:
		fmt.Fprintln(out, "central has NOT countersigned it: the archive was made before central had answered")
	}
	return cli.Exit(code, nil)
}
