package seal

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
)

// ErrSignedAlready means that a manifest carries a signature of this key: a second one
// of the same key is no second signer.
var ErrSignedAlready = errors.New("the manifest is signed with this key already")

// Cosign adds a signature to a sealed manifest. It first proves the whole file against
// the root in the header that is signed, and with first, a public key in note format, that
// the first signature is that key's; an empty first leaves this to who reads the header.
// The file is replaced whole or not at all; its hash, and so its name at central, is a
// new one. The secret key is in note format.
func Cosign(ctx context.Context, path, secret, first string) (manifest.Header, error) {
	signer, err := note.NewSigner(strings.TrimSpace(secret))
	if err != nil { // its message may quote the key
		return manifest.Header{}, errors.New("the key is no secret signing key in note format")
	}
	ring, err := ownRing(secret)
	if err != nil {
		return manifest.Header{}, err
	}
	if first != "" {
		if err := signedBy(ctx, path, first); err != nil {
			return manifest.Header{}, err
		}
	}
	temp, err := copyBeside(path)
	if err != nil {
		return manifest.Header{}, fmt.Errorf("manifest %s: %w", filepath.Base(path), err)
	}
	defer func() { _ = os.Remove(temp) }() // gone after the rename
	if err := addSignature(ctx, temp, signer); err != nil {
		return manifest.Header{}, fmt.Errorf("manifest %s: %w", filepath.Base(path), err)
	}
	b, err := manifest.Open(ctx, temp, ring)
	if err == nil {
		err = b.Verify(ctx, func(int) {})
	}
	if b == nil {
		return manifest.Header{}, err
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return manifest.Header{}, fmt.Errorf("%w; nothing was signed", err)
	}
	if err := errors.Join(os.Chmod(temp, 0o644), syncPath(temp)); err != nil {
		return manifest.Header{}, err
	}
	if err := os.Rename(temp, path); err != nil {
		return manifest.Header{}, err
	}
	return b.Header, syncPath(filepath.Dir(path))
}

// signedBy checks a signature that is there.
func signedBy(ctx context.Context, path, public string) error {
	keys, err := manifest.NewKeys(1, public)
	if err != nil {
		return err
	}
	b, err := manifest.Open(ctx, path, keys)
	if b != nil {
		err = errors.Join(err, b.Close())
	}
	return err
}

// ownRing is the ring of a secret key's public half alone.
func ownRing(secret string) (manifest.Keys, error) {
	bad := errors.New("the key is no Ed25519 signing key in note format")
	parts := strings.Split(strings.TrimSpace(secret), "+") // PRIVATE+KEY+name+hash+data; data may hold a +
	if len(parts) < 5 {
		return manifest.Keys{}, bad
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(parts[4:], "+"))
	if err != nil || len(data) != 1+ed25519.SeedSize || data[0] != 1 {
		return manifest.Keys{}, bad
	}
	public, err := note.NewEd25519VerifierKey(parts[2], ed25519.NewKeyFromSeed(data[1:]).Public().(ed25519.PublicKey))
	if err != nil {
		return manifest.Keys{}, bad
	}
	return manifest.NewKeys(1, public)
}

// copyBeside copies the file into its folder under a name that no reader takes.
func copyBeside(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), ".sealing-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return "", errors.Join(err, os.Remove(out.Name()))
	}
	return filepath.Abs(out.Name())
}

// maxNote bounds a header with its signatures, in bytes.
const maxNote = 64 << 10

func addSignature(ctx context.Context, path string, signer note.Signer) (err error) {
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE"}).String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	var size int
	var signed []byte
	if err := db.QueryRowContext(ctx, "SELECT length(note), substr(note, 1, ?) FROM header", maxNote).Scan(&size, &signed); err != nil {
		return fmt.Errorf("%w: %w", manifest.ErrDamaged, err)
	}
	_, err = note.Open(signed, note.VerifierList()) // no key is known: what is signed comes with the error
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return fmt.Errorf("the header is no signed note: %w", err)
	}
	n := unverified.Note
	if _, err := manifest.ParseHeader(n.Text); err != nil {
		return err
	}
	for _, s := range n.UnverifiedSigs {
		if s.Name == signer.Name() && s.Hash == signer.KeyHash() {
			return ErrSignedAlready
		}
	}
	twice, err := note.Sign(n, signer)
	if err != nil {
		return err
	}
	if len(twice) > maxNote {
		return fmt.Errorf("the header would have %d bytes with one more signature, at most %d", len(twice), maxNote)
	}
	_, err = db.ExecContext(ctx, "UPDATE header SET note = ?", string(twice))
	return err
}
