package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
)

func keyCommand() *cobra.Command {
	return cli.Group("key", "Make the keys that sign manifests, open claims and open identities", keyNewCommand())
}

type keyAnswer struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Secret string `json:"secret_file"`
	Public string `json:"public_file"`
}

func keyNewCommand() *cobra.Command {
	var name, out, until string
	var claims, register, asJSON bool
	cmd := &cobra.Command{
		Use:   "new --name N --out DIR",
		Short: "Make a key pair: DIR/N.key stays secret, DIR/N.pub goes to every terminal",
		Long: `Make a signing key pair in note format (Ed25519). With --claims make the pair whose
public half terminals seal the secret of each paid ticket to, and whose secret half
central opens it with (HPKE, X25519). With --register make the pair whose public half
terminals seal identities to; its secret half belongs on no server: central identity
show is given it, by two persons.

The public half of a key made with --until says its last day: terminals that know the time
open no manifest signed by it alone after that, so its blocks are signed again by a newer
key (block cosign) in good time.`,
		Example: `  central key new --name example-lottery --out keys
  central key new --name example-2031 --until 2031-12-31 --out keys
  central key new --name example-claims --claims --out keys
  central key new --name example-register --register --out keys`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`).MatchString(name) {
				return cli.Usagef("--name %.80q: want 1 to 63 of a-z, 0-9, - and .", name)
			}
			if out == "" {
				return cli.Usagef("--out is missing: name the folder for %s.key and %s.pub", name, name)
			}
			a := keyAnswer{Name: name, Kind: "signing", Secret: filepath.Join(out, name+".key"), Public: filepath.Join(out, name+".pub")}
			switch {
			case claims && register:
				return cli.Usagef("--claims and --register: want one of them")
			case claims:
				a.Kind = "claims"
			case register:
				a.Kind = "register"
			}
			if until != "" {
				if _, err := time.Parse(time.DateOnly, until); err != nil || a.Kind != "signing" {
					return cli.Usagef("--until %.20q: want the last day of a signing key, as 2031-12-31", until)
				}
				until = " until " + until
			}
			if err := writeKeys(a, until); err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: keep it secret, off every terminal\n%s: give it to every terminal\n", a.Secret, a.Public)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the key's `name`, seen in signatures")
	cmd.Flags().StringVar(&out, "out", "", "`folder` for the two files")
	cmd.Flags().StringVar(&until, "until", "", "last `day` on which the signatures of a signing key count")
	cmd.Flags().BoolVar(&claims, "claims", false, "make a claim key pair instead of a signing key pair")
	cmd.Flags().BoolVar(&register, "register", false, "make a register key pair, for identities")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func writeKeys(a keyAnswer, until string) error {
	var secret, public string
	var err error
	switch a.Kind {
	case "claims":
		secret, public, err = ledger.GenerateClaimKey()
	case "register":
		secret, public, err = people.GenerateRegisterKey()
	default:
		secret, public, err = note.GenerateKey(rand.Reader, a.Name)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(a.Secret), 0o700); err != nil {
		return err
	}
	if err := writeNew(a.Secret, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	return writeNew(a.Public, []byte(public+until+"\n"), 0o644)
}

// writeNew writes a file that must not exist: a key is never overwritten.
func writeNew(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("%w (a file that exists is never overwritten: name another, or move it away)", err)
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
