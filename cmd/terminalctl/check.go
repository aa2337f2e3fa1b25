package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

func checkCommand() *cobra.Command {
	var files, keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check CODE|- --manifest FILE... --key PUB",
		Short: "Say what a ticket is worth, with no daemon, no ledger, no policy",
		Long: `Open a ticket's code with one or several manifests and print the verdict. Nothing is
recorded and nothing is paid. - reads the code from standard input, which keeps it out
of the list of processes.

Only layouts with a secret of 60 bits or more are opened: a shorter one needs the block's
pepper, which terminals have and this command does not.

Exit status: 0 winner, 3 refer or again, 4 refused, 1 a manifest's header does not verify.`,
		Example: `  terminalctl check 1003990000123017... --manifest bingo-1.manifest --key keys/example.pub
  terminalctl check - --manifest bingo-1.manifest --key keys/example.pub --json < code.txt`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := readCode(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			ring, err := readKeys(keys)
			if err != nil {
				return err
			}
			return check(cmd.Context(), cmd.OutOrStdout(), code, files, ring, asJSON)
		},
	}
	cmd.Flags().StringArrayVar(&files, "manifest", nil, "a block's manifest `file`; may be given several times")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key that may sign; may be given several times")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// readCode takes the code from the command line or, for -, one line of standard input.
func readCode(in io.Reader, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	line, err := bufio.NewReader(io.LimitReader(in, 4<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func readKeys(paths []string) (manifest.Keys, error) {
	if len(paths) == 0 {
		return manifest.Keys{}, cli.Usagef("--key is missing: name the public key that signs manifests")
	}
	var public []string
	for _, p := range paths {
		text, err := cli.ReadPublicKey(p)
		if err != nil {
			return manifest.Keys{}, err
		}
		public = append(public, text)
	}
	return manifest.NewKeys(1, public...)
}

func check(ctx context.Context, out io.Writer, scan string, files []string, ring manifest.Keys, asJSON bool) error {
	if len(files) == 0 {
		return cli.Usagef("--manifest is missing: name at least one manifest file")
	}
	shelf := manifest.NewShelf()
	var unverified error
	var unread []string
	for _, f := range files {
		b, err := manifest.Open(ctx, f, ring)
		switch {
		case b != nil:
			defer b.Close()
			if err := shelf.Put(b); err != nil {
				fmt.Fprintf(os.Stderr, "terminalctl: manifest %s: %v\n", f, err)
			}
		case errors.Is(err, manifest.ErrSignature), errors.Is(err, manifest.ErrDamaged):
			unverified = errors.Join(unverified, err)
			unread = append(unread, f)
			shelf.Unreadable(unread...)
		case err != nil:
			return err
		}
	}
	code, err := shelf.Read(scan, 0)
	o, detail := validate.Opened{Finding: validate.Misread}, err
	switch {
	case err == nil && !code.Layout.Pays():
		detail = fmt.Errorf("layout %s is the public code on the back: it can prove no prize, take the hidden code", code.Layout.Name)
	case err == nil && code.Partial():
		detail = fmt.Errorf("layout %s has its secret outside the barcode and under %d bits: only a terminal with the block's pepper can prove it", code.Layout.Name, manifest.MinSecretBits)
	case err == nil:
		o, detail = shelf.Open(ctx, code)
	}
	v := validate.Decide(o, checkFacts(), policy.None(), validate.Clock{})
	if err := printVerdict(out, v, code, asJSON); err != nil {
		return err
	}
	if v.Reason == validate.ManifestDamaged && unverified != nil {
		return cli.Exit(cli.Failed, unverified)
	}
	return cli.Exit(cli.VerdictCode(v), detail)
}

// checkFacts are those of a question that asks neither ledger nor central: they hide nothing.
func checkFacts() validate.Facts {
	return validate.Facts{AcceptScaled: true, Pack: validate.PackActive, Right: validate.RightOwner, AllowanceLeft: true}
}

func printVerdict(out io.Writer, v validate.Verdict, code ticket.Code, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, v)
	}
	text := v.Reason.Text(money.English)
	if v.Reason == validate.Winner { // the counter's words would be an order to pay
		text.Clerk, text.Next = "A check only, no order to pay:", "limits and earlier payments were not looked at."
	}
	var b strings.Builder
	if v.Scaled {
		b.WriteString("DEMONSTRATION BLOCK, OF NO VALUE\n")
	}
	fmt.Fprintf(&b, "%s", text.Word)
	if v.AmountMinor != nil && *v.AmountMinor > 0 {
		fmt.Fprintf(&b, "  %s", money.Text(*v.AmountMinor, v.Currency, money.English, money.Receipt))
	}
	fmt.Fprintf(&b, "  (%s, %s, %s)\n", v.Outcome, v.Reason, v.Reason.Code())
	if code.Game != "" {
		fmt.Fprintf(&b, "Ticket %v", code)
		if v.Game != "" {
			fmt.Fprintf(&b, " of %s, emission %s, block %d", v.Game, v.Emission, v.Block)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s %s\n", strings.ReplaceAll(text.Clerk, "\n", " "), strings.ReplaceAll(text.Next, "\n", " "))
	_, err := io.WriteString(out, b.String())
	return err
}

func manifestCommand() *cobra.Command {
	return cli.Group("manifest", "Verify, list and bring in manifests", manifestVerifyCommand(), manifestListCommand(), manifestImportCommand())
}

type manifestAnswer struct {
	File     string `json:"file"`
	OK       bool   `json:"ok"`
	SHA256   string `json:"sha256"`
	Problem  string `json:"problem,omitempty"`
	BlockID  string `json:"block_id,omitempty"`
	Game     string `json:"game,omitempty"`
	GameCode string `json:"game_code,omitempty"`
	Emission string `json:"emission,omitempty"`
	Block    int    `json:"block,omitempty"`
	Tickets  int64  `json:"tickets,omitempty"`
	Scaled   bool   `json:"scaled,omitempty"`
}

func manifestVerifyCommand() *cobra.Command {
	var keys []string
	var want string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "verify FILE --key PUB",
		Short:   "Read a whole manifest and prove every chunk against the signed header",
		Example: `  terminalctl manifest verify bingo-1.manifest --key keys/example.pub --sha256 3f8a...`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := readKeys(keys)
			if err != nil {
				return err
			}
			a, err := verifyManifest(cmd.Context(), args[0], ring, want)
			if printing := printManifest(cmd.OutOrStdout(), a, asJSON); printing != nil {
				return printing
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key that may sign; may be given several times")
	cmd.Flags().StringVar(&want, "sha256", "", "the `hash` the whole file must have, its name at central")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func verifyManifest(ctx context.Context, path string, ring manifest.Keys, want string) (manifestAnswer, error) {
	a := manifestAnswer{File: path}
	fail := func(err error) (manifestAnswer, error) {
		a.Problem = err.Error()
		return a, err
	}
	var err error
	if a.SHA256, err = manifest.FileSHA256(path); err != nil {
		return fail(err)
	}
	if want != "" && !strings.EqualFold(want, a.SHA256) {
		return fail(fmt.Errorf("%w: the file's SHA-256 is %s, it should be %s", manifest.ErrDamaged, a.SHA256, strings.ToLower(want)))
	}
	b, err := manifest.Open(ctx, path, ring)
	if b == nil {
		return fail(err)
	}
	defer b.Close()
	h := b.Header
	a.BlockID, a.Game, a.GameCode, a.Emission, a.Block, a.Tickets, a.Scaled = h.Block.String(), h.Game, h.GameCode, h.Emission, h.Number, h.Tickets, h.Scaled
	if err != nil {
		return fail(err)
	}
	progress := cli.NewProgress(os.Stderr, "chunks", int64(h.Chunks()))
	if err := b.Verify(ctx, func(int) { progress.Add(1) }); err != nil {
		return fail(err)
	}
	a.OK = true
	return a, nil
}

func printManifest(out io.Writer, a manifestAnswer, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, a)
	}
	state := "whole and signed"
	if !a.OK {
		state = "NOT USABLE"
	}
	if _, err := fmt.Fprintf(out, "%s: %s\n", a.File, state); err != nil || a.BlockID == "" {
		return err
	}
	kind := ""
	if a.Scaled {
		kind = ", scaled (demonstration)"
	}
	_, err := fmt.Fprintf(out, "  %s, emission %s, block %d, game code %s, %d tickets%s\n  block id %s\n  sha256 %s\n",
		a.Game, a.Emission, a.Block, a.GameCode, a.Tickets, kind, a.BlockID, a.SHA256)
	return err
}

func manifestListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the blocks a running terminal has",
		Example: `  terminalctl manifest list`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := newClient(socket).Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), st.Blocks)
			}
			return printBlocks(cmd.OutOrStdout(), st)
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func manifestImportCommand() *cobra.Command {
	var keys []string
	var want, dir, socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE --key PUB --into DIR",
		Short: "Verify a manifest or a sealed pepper, put it into a terminal's folder, tell the daemon",
		Long: `Verify a manifest whole, copy it into the terminal's folder of manifests under its
SHA-256, durable and whole or not at all, and tell the running daemon to open it. A
daemon that does not run opens it at its next start.

A file that ends in .pepper (central block pepper) is a block's other half, sealed to this
terminal: it needs no --key, because the block's signed header proves it.`,
		Example: `  terminalctl manifest import /media/usb/bingo-1.manifest --key /etc/grattoir/lottery.pub --into /var/lib/grattoir/manifests`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usagef("--into is missing: name the terminal's folder of manifests")
			}
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return cli.Exit(cli.Failed, fmt.Errorf("the folder %s does not exist: --into names the terminal's folder of manifests, data/manifests beside its ledger", dir))
			}
			if strings.HasSuffix(args[0], ".pepper") {
				return importPepper(cmd, args[0], dir, newClient(socket))
			}
			ring, err := readKeys(keys)
			if err != nil {
				return err
			}
			a, err := verifyManifest(cmd.Context(), args[0], ring, want)
			if err != nil {
				return errors.Join(printManifest(cmd.OutOrStdout(), a, asJSON), err)
			}
			if a.File, err = copyManifest(args[0], dir, a.SHA256); err != nil {
				return err
			}
			if err := printManifest(cmd.OutOrStdout(), a, asJSON); err != nil {
				return err
			}
			st, err := newClient(socket).Rescan(cmd.Context())
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "terminalctl: the daemon was not told, it opens the block at its next start: %v\n", err)
				return nil
			}
			for _, b := range st.Blocks {
				if b.ID == a.BlockID && !b.Damaged {
					return nil
				}
			}
			return fmt.Errorf("the daemon does not use block %s: see terminalctl status and its log (another block with the same packs, or a key it does not trust)", a.BlockID)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key that may sign; may be given several times")
	cmd.Flags().StringVar(&want, "sha256", "", "the `hash` the whole file must have, its name at central")
	cmd.Flags().StringVar(&dir, "into", "", "the terminal's `folder` of manifests")
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// importPepper copies a sealed pepper beside its manifest and has the daemon try it.
func importPepper(cmd *cobra.Command, path, dir string, client *control.Client) error {
	text, err := cli.ReadBounded(path, wire.MaxSealedPepper)
	if err != nil {
		return err
	}
	sealed, err := wire.ParseSealedPepper(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w (make one with central block pepper)", path, err)
	}
	if err := uplink.WriteWhole(filepath.Join(dir, sealed.Block.String()+".pepper"), text); err != nil {
		return err
	}
	st, err := client.Rescan(cmd.Context())
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "terminalctl: the daemon was not told, it opens the pepper at its next start: %v\n", err)
		return nil
	}
	for _, b := range st.Blocks {
		if b.ID == sealed.Block.String() && b.Locked {
			return fmt.Errorf("the daemon cannot open block %s with it: it was sealed to terminal %s, whose key must be this one's", b.ID, sealed.Terminal)
		} else if b.ID == sealed.Block.String() {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "block %s can be opened now\n", b.ID)
			return err
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "pepper kept: its block %s is not here yet\n", sealed.Block)
	return err
}

// copyManifest copies a verified file into dir under its hash, and checks the hash of
// what was read on the way: the source may change under our hands.
func copyManifest(from, dir, sum string) (path string, err error) {
	path = filepath.Join(dir, sum+".manifest")
	if got, err := manifest.FileSHA256(path); err == nil && got == sum {
		return path, nil // the same bytes are there
	}
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, ".importing-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(out.Name()) }() // gone already when it was renamed
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return "", err
	}
	if got, err := manifest.FileSHA256(out.Name()); err != nil || got != sum {
		return "", errors.Join(fmt.Errorf("%s changed while it was copied", from), err)
	}
	if err := os.Rename(out.Name(), path); err != nil {
		return "", err
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	return path, d.Sync()
}
