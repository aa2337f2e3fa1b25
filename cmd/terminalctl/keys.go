package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate/proof"
)

// maxKeyFile bounds the file of a public key, in bytes.
const maxKeyFile = 64 << 10

// keyFlags name the keys that signatures over a journal are verified with. Each may be
// given several times: a terminal that enrolled again has another key.
type keyFlags struct{ device, central []string }

func (k *keyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&k.device, "device-key", nil, "the terminal's public key or certificate, a PEM `file`")
	cmd.Flags().StringArrayVar(&k.central, "central-key", nil, "central's public key, a `file` in note format")
}

// read reads the files that were named.
func (k *keyFlags) read() (ledger.Keys, error) {
	var keys ledger.Keys
	for _, path := range k.device {
		key, err := readDeviceKey(path)
		if err != nil {
			return keys, cli.Usagef("--device-key %s: %w", path, err)
		}
		keys.Device = append(keys.Device, key)
	}
	var central []note.Verifier
	for _, path := range k.central {
		text, err := cli.ReadPublicKey(path)
		if err != nil {
			return keys, cli.Usagef("--central-key: %w", err)
		}
		v, err := note.NewVerifier(text)
		if err != nil {
			return keys, cli.Usagef("--central-key %s: %w", path, err)
		}
		central = append(central, v)
	}
	if len(central) > 0 {
		keys.Central = note.VerifierList(central...)
	}
	return keys, nil
}

func (k *keyFlags) given() bool { return len(k.device)+len(k.central) > 0 }

// identityBeside reads the identity of the terminal whose ledger lies at path, and the
// keys that are published beside it: the terminal's own, those of its earlier enrolments,
// and central's. Without an identity the error is uplink.ErrNoIdentity.
func identityBeside(path string) (uplink.Identity, ledger.Keys, error) {
	dir := filepath.Dir(path)
	id, err := uplink.LoadIdentity(filepath.Join(dir, identityFolder))
	if err != nil {
		return id, ledger.Keys{}, err
	}
	var central []note.Verifier
	for _, text := range id.CentralKeys() {
		v, err := note.NewVerifier(text)
		if err != nil {
			return id, ledger.Keys{}, fmt.Errorf("central's key in the identity: %w", err)
		}
		central = append(central, v)
	}
	keys := ledger.Keys{Central: note.VerifierList(central...), Device: []*ecdsa.PublicKey{id.DeviceKey()}}
	names, err := filepath.Glob(filepath.Join(dir, "slip-*.pub"))
	if err != nil {
		return id, keys, err
	}
	for _, name := range names {
		text, err := cli.ReadBounded(name, proof.MaxKeyFile)
		if err != nil {
			return id, keys, err
		}
		if k, err := proof.ParseKey(string(text)); err == nil && k.Terminal == id.Terminal { // another file proves nothing here
			keys.Device = append(keys.Device, k.Public)
		}
	}
	return id, keys, nil
}

// readDeviceKey reads a P-256 key, or the one in a certificate.
func readDeviceKey(path string) (*ecdsa.PublicKey, error) {
	text, err := cli.ReadBounded(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM text in it")
	}
	var found any
	switch block.Type {
	case "PUBLIC KEY":
		found, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			found = cert.PublicKey
		}
	default:
		return nil, fmt.Errorf("it holds a %.40s, want a PUBLIC KEY or a CERTIFICATE", block.Type)
	}
	if err != nil {
		return nil, err
	}
	key, ok := found.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("its key is no ECDSA key")
	}
	return key, nil
}
