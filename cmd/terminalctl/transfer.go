package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
)

// What takes a journal from one card to another.

func journalExportCommand() *cobra.Command {
	var terminal, from, to, out string
	cmd := &cobra.Command{
		Use:   "export LEDGER [--from A --to B] [--out FILE]",
		Short: "Write the journal as a text that any tool can check",
		Long: `Write every entry as it was hashed, one a line, with what its slip shows, central's
countersignatures and the device's signed heads. sync/ledger/EXPORT.md states the format, and how
to check it with jq, sha256sum and openssl. Nothing is written into or beside the ledger;
terminald may run, and then the export is of the moment.

A part (--from, --to) is for reading; only the whole can be imported. A damaged journal is
exported as it lies, and the exit status is 3.`,
		Example: `  terminalctl journal export /var/lib/grattoir/ledger.db --out journal.jsonl
  terminalctl journal export /mnt/card/ledger.db --from 1-000100 --to 1-000199 > part.jsonl`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			r, err := readRange(from, to)
			if err != nil {
				return err
			}
			i, err := inspectJournal(cmd.Context(), args[0], terminal)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, i.Close()) }()
			if err := exportTo(cmd, i, r, out); err != nil {
				return err
			}
			if _, err := i.Verify(cmd.Context()); err != nil {
				return cli.Exit(cli.Person, fmt.Errorf("the journal was exported as it lies, but: %w", err))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "refuse the ledger of a terminal of another `name`")
	cmd.Flags().StringVar(&from, "from", "", "first entry's ledger `number`, as 1-000100")
	cmd.Flags().StringVar(&to, "to", "", "last entry's ledger `number`")
	cmd.Flags().StringVar(&out, "out", "-", "the new `file`, - for standard output")
	return cmd
}

func readRange(from, to string) (r ledger.Range, err error) {
	for _, end := range []struct {
		flag, text string
		into       *validate.EntryNumber
	}{{"--from", from, &r.From}, {"--to", to, &r.To}} {
		if end.text == "" {
			continue
		}
		if *end.into, err = control.ParseNumber(end.text); err != nil {
			return r, cli.Usagef("%s: %w", end.flag, err)
		}
	}
	return r, nil
}

// exportTo writes the file whole or not at all, for its owner only: it says who was at
// the counter.
func exportTo(cmd *cobra.Command, i *ledger.Inspection, r ledger.Range, out string) error {
	if out == "-" {
		return i.Export(cmd.Context(), cmd.OutOrStdout(), r)
	}
	if _, err := os.Lstat(out); err == nil {
		return cli.Usagef("--out %s: the file exists", out)
	}
	part := out + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part) }()
	err = i.Export(cmd.Context(), f, r)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, out); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(out))
}

type takeoverAnswer struct {
	OK       bool   `json:"ok"`
	Terminal string `json:"terminal"`
	Entries  int64  `json:"entries"`
	Claims   int64  `json:"claims"`
	Minor    int64  `json:"money_minor"`
	Currency string `json:"currency"`
	Acked    string `json:"acknowledged"` // up to there central holds it
	Head     string `json:"head"`
	Epoch    int64  `json:"epoch"` // in which the journal goes on
	Device   bool   `json:"device_signatures_verified"`
}

func journalImportCommand() *cobra.Command {
	var into, terminal string
	var raise, asJSON bool
	var flags keyFlags
	cmd := &cobra.Command{
		Use:   "import EXPORT|- --into LEDGER",
		Short: "Take a terminal's whole journal over into a fresh ledger",
		Long: `Make the ledger of a new card from what journal export wrote of the old one: everything in it
is verified, each ticket that was paid is paid, and the next copy of each slip is a DUPLICATA. The
ledger must be fresh: absent, or without entries. terminald must be stopped.

The journal goes on behind its last entry. When the old card may have written entries after the
export was made, --raise-epoch begins a new epoch, so that no number is given twice; enrol the
terminal again then, and tell central: what was paid after the export is not in this ledger, and
only central can refuse those tickets. Never use the old card again.

Central's key is the one of the new card's enrolment (identity beside the ledger), or --central-key.
The device's signatures are of the old card's key: --device-key has them verified, too.`,
		Example: `  terminalctl journal import journal.jsonl --into /var/lib/grattoir/ledger.db
  terminalctl journal import journal.jsonl --into /var/lib/grattoir/ledger.db --raise-epoch --device-key old.pem`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if into == "" {
				return cli.Usagef("--into is missing: the path of the new ledger\nTry: %s --help", cmd.CommandPath())
			}
			o, name, err := importOptions(&flags, into, terminal)
			if err != nil {
				return err
			}
			o.RaiseEpoch = raise
			p, err := importFrom(cmd.Context(), cmd.InOrStdin(), args[0], ledgerOptions(into, name), o)
			if errors.Is(err, ledger.ErrNotFresh) {
				return cli.Exit(cli.Refused, err)
			}
			if err != nil {
				return err
			}
			return printImport(cmd.OutOrStdout(), p, o, asJSON)
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "`path` of the new ledger")
	cmd.Flags().StringVar(&terminal, "terminal", "", "the terminal's `name`, where there is no identity beside the ledger")
	cmd.Flags().BoolVar(&raise, "raise-epoch", false, "begin a new journal epoch: the old card may have gone on after the export")
	flags.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// importOptions gives the keys, and the name of the terminal that the new card is for.
func importOptions(flags *keyFlags, into, terminal string) (o ledger.ImportOptions, name string, err error) {
	if o.Keys, err = flags.read(); err != nil {
		return o, "", err
	}
	id, beside, err := identityBeside(into)
	switch {
	case errors.Is(err, uplink.ErrNoIdentity):
		if terminal == "" {
			return o, "", cli.Usagef("--terminal is missing: there is no identity beside %s that names the terminal", into)
		}
		return o, terminal, nil
	case err != nil:
		return o, "", err
	case terminal != "" && terminal != id.Terminal:
		return o, "", cli.Usagef("--terminal %s: this card was enrolled as %s", terminal, id.Terminal)
	}
	if o.Keys.Central == nil {
		o.Keys.Central = beside.Central
	}
	return o, id.Terminal, nil
}

func importFrom(ctx context.Context, in io.Reader, path string, opt ledger.Options, o ledger.ImportOptions) (ledger.Proof, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return ledger.Proof{}, err
		}
		defer f.Close()
		in = f
	}
	return ledger.Import(ctx, bufio.NewReader(in), opt, o)
}

func printImport(out io.Writer, p ledger.Proof, o ledger.ImportOptions, asJSON bool) error {
	last := p.Epochs[len(p.Epochs)-1]
	a := takeoverAnswer{OK: true, Terminal: p.Terminal, Entries: p.Entries, Claims: p.Claims, Minor: int64(p.Money), Currency: p.Currency, Acked: numberText(last.Epoch, last.Central.Seq),
		Head: numberText(p.Head.Epoch, p.Head.Seq), Epoch: last.Epoch, Device: last.Device.Verified}
	status := cli.Done
	if o.RaiseEpoch {
		a.Epoch++
		if last.Central.Seq < last.Seq { // central may never get them
			status = cli.Person
		}
	}
	if asJSON {
		return errors.Join(cli.JSON(out, a), cli.Exit(status, nil))
	}
	fmt.Fprintf(out, "imported: terminal %s, %d entries, %s, up to %s\n", a.Terminal, a.Entries, paymentsText(a.Claims, p.Money, p.Currency), a.Head)
	if last.Heads > 0 && !a.Device {
		fmt.Fprintln(out, "the device's signatures were NOT verified (--device-key)")
	}
	if o.RaiseEpoch {
		fmt.Fprintf(out, "the journal goes on in epoch %d\n", a.Epoch)
	} else {
		fmt.Fprintf(out, "the journal goes on behind %s\n", a.Head)
	}
	if status == cli.Person {
		fmt.Fprintf(out, "ENTRIES ABOVE %s WERE NOT ACKNOWLEDGED, and are not sent from a new epoch: give central this export\n", a.Acked)
	}
	return cli.Exit(status, nil)
}
