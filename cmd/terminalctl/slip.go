package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/proof"
)

func slipCommand() *cobra.Command {
	return cli.Group("slip", "Check the code on a slip, publish the key that proves it", slipVerifyCommand(), slipKeyCommand())
}

// slipAnswer says what was proven. What a code says that is not proven is not in it, but
// for the terminal whose key is wanted.
type slipAnswer struct {
	Proven      bool   `json:"proven"`
	Problem     string `json:"problem,omitempty"` // not-a-code, no-key, wrong-signature, or with a journal: not-in-journal, other-entry, reversal-asked
	Terminal    string `json:"terminal,omitempty"`
	Kind        string `json:"kind,omitempty"` // payment or DEMONSTRATION
	Number      string `json:"number,omitempty"`
	Hash        string `json:"hash,omitempty"` // first digits of the entry's
	AmountMinor int64  `json:"amount_minor,omitempty"`
	Currency    string `json:"currency,omitempty"`
	GameCode    string `json:"game_code,omitempty"`
	Pack        string `json:"pack,omitempty"`
	Ticket      string `json:"ticket,omitempty"`
	Key         string `json:"key,omitempty"` // file of the key that proved it
	Fingerprint string `json:"fingerprint,omitempty"`
	Journal     string `json:"journal,omitempty"`  // found, not-in-journal or other-entry
	Reversal    string `json:"reversal,omitempty"` // ledger number under which the journal asks for its reversal
}

func slipVerifyCommand() *cobra.Command {
	var files []string
	var journal string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify CODE|- --key FILE...",
		Short: "Say whether a terminal recorded the payment that a slip shows, with no network",
		Long: `Check the code on a slip with the published keys of terminals. A code that is proven says
that this terminal recorded this payment under this number. It does not say that the paper is the
only copy, nor that the payment was not reversed since: ask central for that, or a journal.

Compare what is printed here with the slip: the code proves its own figures, not those of the paper
around it. - reads the code from standard input, as a scanner types it. With --journal the
entry is looked up in an exported journal (terminalctl journal export) as well, and whether
its reversal was asked for there.

Exit status: 0 proven, 4 not proven, 3 proven but not in the journal, or to be reversed by it,
2 wrong usage.`,
		Example: `  terminalctl slip verify G1.T-0001.1-000006.2000EUR.00399-... --key T-0001.pem
  terminalctl slip verify - --key T-0001.pem --key T-0002.pem --journal journal.jsonl < code.txt`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := readCode(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			keys, err := readSlipKeys(files)
			if err != nil {
				return err
			}
			a, c := verifySlip(code, keys)
			if a.Proven && journal != "" {
				if a.Journal, a.Reversal, err = lookUp(c, journal); err != nil {
					return err
				}
				if a.Journal != inJournal {
					a.Problem = a.Journal
				} else if a.Reversal != "" {
					a.Problem = "reversal-asked"
				}
			}
			return printSlip(cmd.OutOrStdout(), a, c, asJSON)
		},
	}
	cmd.Flags().StringArrayVar(&files, "key", nil, "`file` of a terminal's published key; may be given several times")
	cmd.Flags().StringVar(&journal, "journal", "", "exported journal `file` to look the entry up in")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// slipKeyFile is a published key and where it was read.
type slipKeyFile struct {
	proof.Key
	file string
}

func readSlipKeys(files []string) ([]slipKeyFile, error) {
	if len(files) == 0 {
		return nil, cli.Usagef("--key is missing: name the file of the terminal's published key (central terminal key, or terminalctl slip key on the terminal)")
	}
	var keys []slipKeyFile
	for _, f := range files {
		text, err := cli.ReadBounded(f, proof.MaxKeyFile)
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--key: %w", err))
		}
		k, err := proof.ParseKey(string(text))
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--key %s: %w", f, err))
		}
		keys = append(keys, slipKeyFile{k, f})
	}
	return keys, nil
}

// verifySlip tries the keys of the terminal that the code names. There may be several,
// since a terminal that enrolled again has another.
func verifySlip(text string, keys []slipKeyFile) (slipAnswer, proof.Code) {
	c, err := proof.Parse(text)
	if err != nil {
		return slipAnswer{Problem: "not-a-code"}, c
	}
	a := slipAnswer{Problem: "no-key", Terminal: c.Terminal}
	for _, k := range keys {
		err := c.Verify(k.Key)
		if err == nil {
			kind := "payment"
			if c.Demonstration {
				kind = "DEMONSTRATION"
			}
			return slipAnswer{Proven: true, Terminal: c.Terminal, Kind: kind, Number: c.Number.String(), Hash: c.Hash, AmountMinor: int64(c.Amount), Currency: c.Currency,
				GameCode: c.GameCode, Pack: c.Pack, Ticket: c.Ticket, Key: k.file, Fingerprint: k.Fingerprint()}, c
		}
		if errors.Is(err, proof.ErrSignature) {
			a.Problem = "wrong-signature"
		}
	}
	return a, c
}

// What a journal says of a proven slip's entry.
const (
	inJournal    = "found"
	notInJournal = "not-in-journal"
	otherEntry   = "other-entry"
)

const maxJournalLine = 64 << 10

// lookUp reads an exported journal for the entry of a code, and for one that asks for the
// reversal of that payment. Lines that are no entries
// are stepped over: an export may hold other facts beside them. Whether the journal is
// whole and unchanged is journal verify's question.
func lookUp(c proof.Code, path string) (state, reversal string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", cli.Exit(cli.Usage, fmt.Errorf("--journal: %w", err))
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxJournalLine)
	entries := 0
	state = notInJournal
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), `{"v":`) {
			continue
		}
		e, err := ledger.ParseEntry(lines.Bytes())
		if err != nil {
			return "", "", fmt.Errorf("--journal %s: entry %d of the file: %w", path, entries+1, err)
		}
		if e.Terminal != c.Terminal {
			return "", "", cli.Usagef("--journal %s is of terminal %.64s, the slip of %s", path, e.Terminal, c.Terminal)
		}
		entries++
		if e.Epoch == c.Number.Epoch && e.Seq == c.Number.Seq {
			state = sameEntry(c, e, lines.Bytes())
		} else if r, err := e.Reversal(); err == nil && r.Number == c.Number {
			reversal = validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}.String()
		}
	}
	if err := lines.Err(); err != nil {
		return "", "", fmt.Errorf("--journal %s: %w", path, err)
	}
	if entries == 0 {
		return "", "", cli.Usagef("--journal %s holds no entry: take what terminalctl journal export wrote", path)
	}
	return state, reversal, nil
}

// sameEntry holds the journal's line against what the terminal signed.
func sameEntry(c proof.Code, e ledger.Entry, line []byte) string {
	sum := sha256.Sum256(line)
	claim, err := e.Claim()
	if err != nil || !strings.HasPrefix(hex.EncodeToString(sum[:]), c.Hash) || claim.AmountMinor != int64(c.Amount) || claim.Currency != c.Currency {
		return otherEntry
	}
	return inJournal
}

// printSlip prints the answer and gives the exit status that goes with it.
func printSlip(out io.Writer, a slipAnswer, c proof.Code, asJSON bool) error {
	status := cli.Done
	switch {
	case !a.Proven:
		status = cli.Refused
	case a.Problem != "":
		status = cli.Person
	}
	var err error
	if asJSON {
		err = cli.JSON(out, a)
	} else {
		_, err = io.WriteString(out, slipText(a, c))
	}
	if err != nil {
		return err
	}
	return cli.Exit(status, nil)
}

// slipText is the answer in words.
func slipText(a slipAnswer, c proof.Code) string {
	switch a.Problem {
	case "not-a-code":
		return "NOT PROVEN: this is no slip's code, or something in it was misread or changed.\nScan it again rather than typing it: capitals and small letters differ.\n"
	case "no-key":
		return fmt.Sprintf("NOT PROVEN: the code names terminal %s, and no key given is that terminal's.\nAsk central for it: central terminal key %s\n", a.Terminal, a.Terminal)
	case "wrong-signature":
		return fmt.Sprintf("NOT PROVEN: the code names terminal %s, whose key did not sign it: it was changed or forged,\nor the terminal had another key then: add the file of that one with --key.\n", a.Terminal)
	}
	var b strings.Builder
	if c.Demonstration {
		b.WriteString("DEMONSTRATION, OF NO VALUE\n")
	}
	fmt.Fprintf(&b, "PROVEN: terminal %s recorded a payment of %s under number %s\n", a.Terminal, money.Text(c.Amount, c.Currency, money.English, money.Receipt), a.Number)
	fmt.Fprintf(&b, "ticket %s-%s of game code %s, entry hash %s...\nkey %s, fingerprint %s\n", a.Pack, a.Ticket, a.GameCode, a.Hash, a.Key, a.Fingerprint)
	switch a.Journal {
	case inJournal:
		b.WriteString("The journal holds this very entry.\n")
		if a.Reversal != "" {
			fmt.Fprintf(&b, "BUT ITS REVERSAL WAS ASKED FOR, number %s: the centre knows whether it was accepted.\n", a.Reversal)
		}
	case notInJournal:
		b.WriteString("BUT THE JOURNAL HAS NO ENTRY OF THIS NUMBER: it was exported before, or entries are missing.\n")
	case otherEntry:
		b.WriteString("BUT THE JOURNAL HAS ANOTHER ENTRY UNDER THIS NUMBER: keep slip and journal, call the centre.\n")
	}
	b.WriteString("Compare these figures with the slip. Not proven: that the paper is the only copy, or that\nthe payment was not reversed since.\n")
	return b.String()
}

type slipKeyAnswer struct {
	Terminal    string `json:"terminal"`
	Fingerprint string `json:"fingerprint"`
	File        string `json:"file"`
	Key         string `json:"key"`
}

func slipKeyCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "key --data DIR",
		Short: "Print the key by which anybody can check this terminal's slips",
		Long: `Print the public key of this terminal's slips, which terminald wrote at its start. Give it to
whoever is to check them. Of a linked terminal, central has the same key (central terminal key);
earlier keys lie beside it as slip-FINGERPRINT.pub and prove the slips of their time.`,
		Example: `  terminalctl slip key --data /var/lib/grattoir > T-0001.pem`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if data == "" {
				return cli.Usagef("--data is missing: name the terminal's data folder\nTry: %s --help", cmd.CommandPath())
			}
			path := configs.Terminal{Data: data}.SlipPublic()
			text, err := cli.ReadBounded(path, proof.MaxKeyFile)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: terminald writes it when it starts", err)
			}
			if err != nil {
				return err
			}
			k, err := proof.ParseKey(string(text))
			if err != nil {
				return fmt.Errorf("%s: %w: start terminald again, it writes the file anew", path, err)
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), slipKeyAnswer{k.Terminal, k.Fingerprint(), path, string(text)})
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "the terminal's data `folder`")
	jsonFlag(cmd, &asJSON)
	return cmd
}
