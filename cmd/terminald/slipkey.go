package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/proof"
)

// slipSigner makes what signs this terminal's slips, and publishes the key that proves
// them as slip.pub. With no usable key the terminal works all the same, and the function
// gives the reason why a slip has no control code. The ledger must be open: its lock
// keeps a second daemon from making another key.
func slipSigner(c configs.Terminal, id uplink.Identity, log *slog.Logger) func(validate.Receipt) (string, error) {
	public, sign, err := slipKey(c, id)
	var text string
	if err == nil {
		text, err = proof.Key{Terminal: c.Name, Public: public}.Text()
	}
	if err != nil {
		log.Error("slips are printed without their control code", "err", err)
		return func(validate.Receipt) (string, error) { return "", err }
	}
	logError(log, "publishing the key that proves slips", publish(c.SlipPublic(), text, log))
	return func(r validate.Receipt) (string, error) {
		s, err := proof.Of(r)
		if err != nil {
			return "", err
		}
		code, err := s.Sign(sign)
		if err != nil {
			return "", err
		}
		return code.String(), nil
	}
}

// slipKey is the device's key, which central knows; a terminal on its own has one in a
// file, made at its first start.
func slipKey(c configs.Terminal, id uplink.Identity) (*ecdsa.PublicKey, func([]byte) ([]byte, error), error) {
	if !c.StandAlone {
		return id.DeviceKey(), id.Sign, nil
	}
	key, err := readSlipKey(c.SlipKey())
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeSlipKey(c.SlipKey())
	}
	if err != nil {
		return nil, nil, err
	}
	return &key.PublicKey, func(text []byte) ([]byte, error) {
		digest := sha256.Sum256(text)
		return key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}, nil
}

const maxSlipKey = 4 << 10

// readSlipKey reads the key's file. Its errors show nothing of it.
func readSlipKey(path string) (*ecdsa.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so others can read it: chmod 600 it, or move it away if somebody may have; the next start makes another", path, mode)
	}
	text, err := cli.ReadBounded(path, maxSlipKey)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := k.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s holds no P-256 key: bring it back from its copy, or move it away; the next start makes another", path)
}

func makeSlipKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, uplink.WriteWhole(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// publish writes the public key. One of an earlier key is kept beside it, by its
// fingerprint: it still proves the slips of its time.
func publish(path, text string, log *slog.Logger) error {
	old, err := cli.ReadBounded(path, proof.MaxKeyFile)
	if err == nil && string(old) == text {
		return nil
	}
	if earlier, err := proof.ParseKey(string(old)); err == nil {
		aside := filepath.Join(filepath.Dir(path), "slip-"+earlier.Fingerprint()+".pub")
		if err := os.Rename(path, aside); err != nil {
			return err
		}
		log.Warn("slips have another key from now on: keep the earlier one with it", "earlier", aside, "now", path)
	}
	if err := uplink.WriteWhole(path, []byte(text)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // anybody may have it
}
