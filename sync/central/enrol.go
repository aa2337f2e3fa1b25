package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
)

// codeLife is how long an enrolment code that is typed may be used.
const codeLife = 24 * time.Hour

// EnrolCode lets one device enrol as one terminal.
type EnrolCode struct {
	Terminal string    `json:"terminal"`
	Code     string    `json:"code"` // shown once: central keeps only a hash
	Expires  time.Time `json:"expires"`
}

// AddTerminal makes a terminal known and gives the code it enrols with. For a terminal
// that was never seen it is a new code in place of the old; a suspended one may enrol
// again, with a new key, and its journal may then begin a higher epoch. The code of an
// enrolled terminal is refused: suspend it first.
func (c *Central) AddTerminal(ctx context.Context, name string) (EnrolCode, error) {
	return c.addTerminal(ctx, name, codeLife)
}

// EnrolFile is AddTerminal for a device that has no network when it is enrolled: it gives
// a signed file for its card, wire.EnrolFile, which is good for so long, at most
// wire.MaxEnrolLife. The URL is central's as the device will reach it; the server's
// certificate must be for its host.
func (c *Central) EnrolFile(ctx context.Context, name, centralURL string, life time.Duration) (signed string, e EnrolCode, err error) {
	if life <= 0 || life > wire.MaxEnrolLife {
		return "", e, fmt.Errorf("enrolment file of %.64q: %w: it may live from a day to %d days", name, ErrRefused, wire.MaxEnrolLife/(24*time.Hour))
	}
	u, err := url.Parse(centralURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return "", e, fmt.Errorf("central's address %.80q: %w: want https://HOST:PORT and nothing after it", centralURL, ErrRefused)
	}
	if err := c.keys.server.Leaf.VerifyHostname(u.Hostname()); err != nil {
		return "", e, fmt.Errorf("central's address %.80q: %w: the server's certificate is not for this host (central serve --host): %w", centralURL, ErrRefused, err)
	}
	sealKeys, err := c.SealKeys()
	if err != nil {
		return "", e, err
	}
	if len(sealKeys) > wire.MaxEnrolSealers {
		return "", e, fmt.Errorf("%w: %d seal keys, an enrolment file has room for %d", ErrRefused, len(sealKeys), wire.MaxEnrolSealers)
	}
	if e, err = c.addTerminal(ctx, name, life); err != nil {
		return "", e, err
	}
	f := wire.EnrolFile{Terminal: name, Central: "https://" + u.Host, Issued: c.opt.Now(), Expires: e.Expires, Code: e.Code, CA: c.keys.ca,
		CentralKey: c.keys.notePublic, ClaimKey: c.keys.claimLine, SealKeys: sealKeys}
	text, err := note.Sign(&note.Note{Text: f.Text()}, c.keys.signer)
	return string(text), e, err
}

func (c *Central) addTerminal(ctx context.Context, name string, life time.Duration) (EnrolCode, error) {
	if !terminalName.MatchString(name) {
		return EnrolCode{}, fmt.Errorf("terminal %.64q: %w: a name has 1 to 63 of letters, digits, . _ and -, and begins with a letter or digit", name, ErrRefused)
	}
	var secret wire.EnrolSecret
	if _, err := io.ReadFull(c.opt.Rand, secret[:]); err != nil {
		return EnrolCode{}, fmt.Errorf("random number: %w", err)
	}
	now := c.opt.Now()
	e := EnrolCode{Terminal: name, Code: wire.EncodeEnrolCode(secret, wire.PinOf(c.keys.ca.RawSubjectPublicKeyInfo)), Expires: now.Add(life).UTC()}
	hash := sha256.Sum256(secret[:])
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO terminals(name, state, added, ack_hash) VALUES($1, $2, $3, $4) ON CONFLICT(name) DO NOTHING", name, NeverSeen, wire.FormatTime(now), noHash)
		if err != nil {
			return err
		}
		var state TerminalState
		err = tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING state", name).Scan(&state)
		if err == nil && state == Enrolled {
			err = fmt.Errorf("terminal %s is enrolled: %w: to enrol another device in its place, first central terminal suspend %s", name, ErrRefused, name)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO enrol_codes(terminal, hash, expires) VALUES($1, $2, $3)
			ON CONFLICT(terminal) DO UPDATE SET hash = excluded.hash, expires = excluded.expires, csr = NULL, certificate = ''`, name, hash[:], wire.FormatTime(e.Expires))
		return err
	})
	return e, err
}

// enrol answers a request for a certificate. A code is good for one key: the same code
// with the same request is an answer that was lost and gets the same certificate again.
func (c *Central) enrol(ctx context.Context, r wire.EnrolRequest) (wire.EnrolAnswer, error) {
	csr, err := parseCSR(r.CSR)
	if err != nil {
		return wire.EnrolAnswer{}, wireError(wire.KindBadRequest, "certificate request: %v", err)
	}
	renewal, err := renewalKey(r.RenewalKey)
	if err != nil {
		return wire.EnrolAnswer{}, wireError(wire.KindBadRequest, "renewal key: %v", err)
	}
	secret, pin, err := wire.ParseEnrolCode(r.Code)
	if err != nil {
		return wire.EnrolAnswer{}, wireError(wire.KindBadCode, "%v", err)
	}
	if want := wire.PinOf(c.keys.ca.RawSubjectPublicKeyInfo); subtle.ConstantTimeCompare(pin[:], want[:]) != 1 {
		return wire.EnrolAnswer{}, wireError(wire.KindBadCode, "the code is of another central")
	}
	sealKeys, err := c.SealKeys()
	if err != nil {
		return wire.EnrolAnswer{}, err
	}
	now := c.opt.Now()
	a := wire.EnrolAnswer{Protocol: wire.Protocol, CA: c.keys.caPEM, CentralKey: c.keys.notePublic, SealKeys: append([]string{}, sealKeys...),
		ClaimKey: c.keys.claimLine, Time: wire.FormatTime(now)}
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var used []byte
		var err error
		if a.Terminal, err = findCode(ctx, tx, secret, wire.FormatTime(now)); err != nil {
			return err
		}
		if a.Certificate, used, err = holdCode(ctx, tx, a.Terminal, secret); err != nil {
			return err
		}
		sum := sha256.Sum256(csr.Raw)
		if used != nil {
			if subtle.ConstantTimeCompare(used, sum[:]) != 1 {
				return wireError(wire.KindBadCode, "the code was used by another device: ask for a new one")
			}
			return nil
		}
		a.Certificate, err = c.certify(ctx, tx, a.Terminal, csr, renewal, now)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE enrol_codes SET csr = $1, certificate = $2 WHERE terminal = $3", sum[:], a.Certificate, a.Terminal)
		}
		return err
	})
	if err != nil {
		return wire.EnrolAnswer{}, err
	}
	c.opt.Log.Info("terminal enrolled", "terminal", a.Terminal)
	return a, nil
}

// renewalKey reads the public key that renews after the end, in PEM; nil for none.
func renewalKey(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("want one PEM block of type PUBLIC KEY")
	}
	key, err := parseKey(block.Bytes)
	if err == nil && key.Curve != elliptic.P256() {
		err = errors.New("want a P-256 key")
	}
	return block.Bytes, err
}

func parseCSR(text string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("want one PEM block of type CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if key, ok := csr.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("want a P-256 key")
	}
	return csr, csr.CheckSignature()
}

// findCode compares with every live code in constant time, so that its time tells
// nothing about any of them. There are as many as were made in a day.
func findCode(ctx context.Context, tx *sql.Tx, secret wire.EnrolSecret, now string) (terminal string, err error) {
	hash := sha256.Sum256(secret[:])
	rows, err := tx.QueryContext(ctx, "SELECT terminal, hash FROM enrol_codes WHERE expires > $1", now)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var t string
		var h []byte
		if err := rows.Scan(&t, &h); err != nil {
			return "", err
		}
		if subtle.ConstantTimeCompare(h, hash[:]) == 1 {
			terminal = t
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if terminal == "" {
		return "", errNoCode()
	}
	return terminal, nil
}

func errNoCode() error {
	return wireError(wire.KindBadCode, "the code is unknown or has expired: ask for a new one")
}

// holdCode gives what a code was used for. Two devices that come with it at once do so
// one after the other.
func holdCode(ctx context.Context, tx *sql.Tx, terminal string, secret wire.EnrolSecret) (certificate string, csr []byte, err error) {
	hash := sha256.Sum256(secret[:])
	err = tx.QueryRowContext(ctx, "UPDATE enrol_codes SET hash = hash WHERE terminal = $1 AND hash = $2 RETURNING certificate, csr", terminal, hash[:]).Scan(&certificate, &csr)
	if errors.Is(err, sql.ErrNoRows) { // replaced or made void since it was found
		err = errNoCode()
	}
	return certificate, csr, err
}

// certify makes the certificate of an enrolment and enrols its key. Earlier certificates
// end, and so does what an earlier device was frozen for: this is another one.
func (c *Central) certify(ctx context.Context, tx *sql.Tx, terminal string, csr *x509.CertificateRequest, renewalKey []byte, now time.Time) (string, error) {
	if _, err := tx.ExecContext(ctx, "DELETE FROM certificates WHERE terminal = $1", terminal); err != nil {
		return "", err
	}
	_, err := tx.ExecContext(ctx, `UPDATE terminals SET state = $1, reason = '', enrolled = $2, public_key = $3, renewal_key = $4, fresh_epoch = 1, frozen = '', frozen_at = '',
		recover_epoch = 0, runs = '[]' WHERE name = $5`, Enrolled, wire.FormatTime(now), csr.RawSubjectPublicKeyInfo, renewalKey, terminal)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO device_keys(terminal, number, enrolled, public_key)
			SELECT $1, coalesce(max(number), 0) + 1, $2, $3 FROM device_keys WHERE terminal = $1`, terminal, wire.FormatTime(now), csr.RawSubjectPublicKeyInfo)
	}
	if err != nil {
		return "", err
	}
	return c.issue(ctx, tx, terminal, csr.PublicKey, howEnrolled, now)
}

// How a certificate came about, as the table certificates has it.
const (
	howEnrolled    = "enrolled"
	howRenewed     = "renewed"
	howRenewedLate = "renewed-late" // after the one before had ended
)

// issue makes a certificate of a terminal's key and keeps it beside those that are still
// good: the device may not get it, and goes on with the one it has.
func (c *Central) issue(ctx context.Context, tx *sql.Tx, terminal string, key any, how string, now time.Time) (string, error) {
	serial, err := serialNumber(c.opt.Rand)
	if err != nil {
		return "", err
	}
	expires := now.Add(terminalLife)
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: terminal}, NotBefore: now.Add(-clockSlack), NotAfter: expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, c.keys.ca, key, c.keys.caKey)
	if err != nil {
		return "", err
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	if _, err := tx.ExecContext(ctx, "DELETE FROM certificates WHERE terminal = $1 AND expires < $2", terminal, wire.FormatTime(now)); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO certificates(terminal, serial, issued, expires, certificate, how) VALUES($1, $2, $3, $4, $5, $6)",
		terminal, serial.Text(16), wire.FormatTime(now), wire.FormatTime(expires), text, how)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE terminals SET cert_serial = $1, cert_expires = $2 WHERE name = $3", serial.Text(16), wire.FormatTime(expires), terminal)
	}
	return text, err
}
