package central

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
)

// The CA and the note key are replaced together, in three steps between which terminals
// have weeks: BeginRotation makes the new pair and tells of it, SwitchRotation signs with
// it, EndRotation forgets the old one. In between both count on both sides. Each step is
// for the next start: a server that runs goes on with what it has.

// Rotation is where a rotation stands.
type Rotation string

const (
	NoRotation       Rotation = "none"
	RotationBegun    Rotation = "begun"    // the new CA and key are told of, the old ones sign
	RotationSwitched Rotation = "switched" // the new ones sign, the old ones still count
)

// pair are the files of one CA with its note key.
type pair struct{ ca, sign string }

func (c *Central) pairs() (now, next, old pair) {
	dir := filepath.Join(c.opt.Dir, "keys")
	name := func(suffix string) pair {
		return pair{filepath.Join(dir, "ca"+suffix+".pem"), filepath.Join(dir, "sign"+suffix+".key")}
	}
	return name(""), name("-next"), name("-old")
}

func (p pair) exists() (bool, error) {
	for _, path := range []string{p.ca, p.sign} {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// Rotation tells where the rotation stands.
func (c *Central) Rotation() (Rotation, error) {
	_, next, old := c.pairs()
	if begun, err := next.exists(); err != nil || begun {
		return RotationBegun, err
	}
	if switched, err := old.exists(); err != nil || switched {
		return RotationSwitched, err
	}
	return NoRotation, nil
}

func (c *Central) rotationIs(want Rotation) error {
	at, err := c.Rotation()
	if err == nil && at != want {
		err = fmt.Errorf("%w: the rotation is %s, this step wants %s: central ca show", ErrRefused, at, want)
	}
	return err
}

// BeginRotation makes the next CA and note key. Terminals hear of them from the next start on.
func (c *Central) BeginRotation() error {
	if err := c.rotationIs(NoRotation); err != nil {
		return err
	}
	_, next, _ := c.pairs()
	if _, _, err := loadPair(next.sign, func() (string, string, error) { return note.GenerateKey(rand.Reader, c.opt.Name) }); err != nil {
		return err
	}
	_, err := makeCA(next.ca, c.opt)
	return err
}

// Untold are the enrolled terminals that do not know yet whom this central tells them to
// believe: after a switch they cannot reach it, after an end neither can those whose
// certificate is of the old CA.
func (c *Central) Untold(ctx context.Context) ([]string, error) {
	t, err := c.trust()
	if err != nil {
		return nil, err
	}
	rows, err := c.store.reader().QueryContext(ctx, "SELECT name FROM terminals WHERE state = $1 AND trust <> $2 ORDER BY name", Enrolled, t.Mark())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

func (c *Central) allTold(ctx context.Context, force bool) error {
	list, err := c.Untold(ctx)
	if err == nil && len(list) > 0 && !force {
		err = fmt.Errorf("%w: %d terminals have not heard of it, as %s: wait for them, or force it, and give each of those a new code", ErrRefused, len(list), strings.Join(list[:min(5, len(list))], ", "))
	}
	return err
}

// SwitchRotation lets the new CA and key sign. Every enrolled terminal must have heard of
// them, unless it is forced; one that has not needs a new enrolment.
func (c *Central) SwitchRotation(ctx context.Context, force bool) error {
	if err := c.rotationIs(RotationBegun); err != nil {
		return err
	}
	if err := c.allTold(ctx, force); err != nil {
		return err
	}
	now, next, old := c.pairs()
	for _, move := range [][2]string{{now.sign, old.sign}, {next.sign, now.sign}, {now.ca, old.ca}, {next.ca, now.ca}} {
		if _, err := os.Stat(move[0]); errors.Is(err, fs.ErrNotExist) {
			continue // a switch that was cut goes on
		}
		if err := moveInto(move[0], move[1]); err != nil {
			return err
		}
	}
	return nil
}

// EndRotation forgets the old CA and key. Every enrolled terminal must have heard that the
// new ones sign, unless it is forced. The old key's public half is kept: it proves what it signed.
func (c *Central) EndRotation(ctx context.Context, force bool) error {
	if err := c.rotationIs(RotationSwitched); err != nil {
		return err
	}
	if err := c.allTold(ctx, force); err != nil {
		return err
	}
	_, _, old := c.pairs()
	_, public, err := loadPair(old.sign, noKey)
	if err != nil {
		return err
	}
	retired, err := readRetired(c.opt.Dir)
	if err != nil {
		return err
	}
	if err := writeWhole(retiredPath(c.opt.Dir), []byte(strings.Join(append(retired, public), "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(os.Remove(old.ca), os.Remove(old.sign))
}

func noKey() (string, string, error) { return "", "", fs.ErrNotExist }

func retiredPath(dir string) string { return filepath.Join(dir, "keys", "retired.pub") }

func readRetired(dir string) ([]string, error) {
	text, err := readKeyFile(retiredPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// loadBeside reads what counts beside the present CA and key: those to come, those that
// were, and the keys that only prove what they signed.
func (k *keys) loadBeside(c *Central) error {
	_, next, old := c.pairs()
	public := []string{k.notePublic}
	k.signers = []note.Signer{k.signer}
	for _, p := range []pair{next, old} {
		text, err := readKeyFile(p.ca)
		if err == nil {
			_, ca, err := parseIdentity(text)
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(p.ca), err)
			}
			k.otherCAs = append(k.otherCAs, ca)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		secret, line, err := loadPair(p.sign, noKey)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s, err := note.NewSigner(secret)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(p.sign), err)
		}
		k.signers, k.otherKeys, public = append(k.signers, s), append(k.otherKeys, line), append(public, line)
	}
	retired, err := readRetired(c.opt.Dir)
	if err != nil {
		return err
	}
	var verifiers []note.Verifier
	for _, line := range append(public, retired...) {
		v, err := note.NewVerifier(line)
		if err != nil {
			return fmt.Errorf("a key of central's: %w", err)
		}
		verifiers = append(verifiers, v)
	}
	k.verifiers = note.VerifierList(verifiers...)
	return nil
}

// sign signs a text with every key that counts: a terminal may know the old one only, or
// the new one only.
func (k *keys) sign(text string) (string, error) {
	signed, err := note.Sign(&note.Note{Text: text}, k.signers...)
	return string(signed), err
}

// signedNow gives a note that was signed before, as it was where it bears the signatures
// of all keys that count now, and signed anew otherwise. Its text is the same.
func (k *keys) signedNow(signed string) (string, error) {
	n, err := note.Open([]byte(signed), k.verifiers)
	if err != nil {
		return "", fmt.Errorf("a note of central's own: %w", err)
	}
	has := map[uint32]bool{}
	for _, s := range n.Sigs {
		has[s.Hash] = true
	}
	for _, s := range k.signers {
		if !has[s.KeyHash()] {
			return k.sign(n.Text)
		}
	}
	return signed, nil
}

// trust is whom terminals are to believe now.
func (c *Central) trust() (wire.Trust, error) {
	seals, err := c.SealKeys()
	return wire.Trust{Issued: c.opt.Now(), CAs: append([]*x509.Certificate{c.keys.ca}, c.keys.otherCAs...),
		CentralKeys: append([]string{c.keys.notePublic}, c.keys.otherKeys...), SealKeys: seals}, err
}

func (c *Central) serveTrust(w http.ResponseWriter, r *http.Request, _ caller) {
	t, err := c.trust()
	var signed string
	if err == nil {
		signed, err = c.keys.sign(t.Text())
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(signed)) // a terminal that left asks again
}

// clientCAs are those whose certificates of terminals are good.
func (c *Central) clientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range append([]*x509.Certificate{c.keys.ca}, c.keys.otherCAs...) {
		pool.AddCert(ca)
	}
	return pool
}
