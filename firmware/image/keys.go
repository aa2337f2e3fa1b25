package image

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Signing is who signs update bundles: files in PEM. Terminals hold the root alone; the
// root's key belongs on no machine that has a network.
type Signing struct {
	Root string // certificate of the root, which goes into the image
	Cert string // of the leaf that signs bundles, for code signing only
	Key  string // of the leaf; "" where nothing is signed
}

// DevelopmentKeys makes a root and a leaf in a folder, once. They are for tests and demonstrations:
// the root's key lies beside the rest, where anybody who reads the folder can sign.
func DevelopmentKeys(folder string, now time.Time) (Signing, error) {
	s := Signing{Root: filepath.Join(folder, "root.pem"), Cert: filepath.Join(folder, "codesign.pem"), Key: filepath.Join(folder, "codesign.key")}
	if _, err := os.Stat(s.Cert); err == nil {
		return s, nil // written last: the rest is there
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Signing{}, err
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Signing{}, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Signing{}, err
	}
	root := template("Grattoir development root", now, 20)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return Signing{}, err
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return Signing{}, err
	}
	leaf := template("Grattoir development bundles", now, 10)
	leaf.KeyUsage, leaf.ExtKeyUsage, leaf.BasicConstraintsValid = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, true
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	if err != nil {
		return Signing{}, err
	}
	err = errors.Join(
		writeKey(filepath.Join(folder, "root.key"), rootKey), writeKey(s.Key, leafKey),
		writePEM(s.Root, "CERTIFICATE", rootDER, 0o644), writePEM(s.Cert, "CERTIFICATE", leafDER, 0o644))
	return s, err
}

func template(name string, now time.Time, years int) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(years, 0, 0)}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return fmt.Errorf("signing keys: %w", err)
	}
	return nil
}
