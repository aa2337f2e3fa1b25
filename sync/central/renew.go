package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"grattoir/sync/wire"
)

// renewEvery is how often a terminal gets another certificate: one that was made since is
// given again, because an answer can be lost.
const renewEvery = 24 * time.Hour

// Certificate is a certificate of a terminal that is good until it expires.
type Certificate struct {
	Serial  string    `json:"serial"`
	How     string    `json:"how"` // enrolled, renewed, or renewed-late after the one before had ended
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	Used    time.Time `json:"used,omitzero"` // first hello with it, zero before
}

// Certificates are those of a terminal that are good, the newest first. An old and a new
// one overlap.
func (c *Central) Certificates(ctx context.Context, name string) ([]Certificate, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT serial, how, issued, expires, used FROM certificates WHERE terminal = $1 AND expires > $2 ORDER BY issued DESC, serial", name, c.now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Certificate{}
	for rows.Next() {
		var x Certificate
		var issued, expires, used string
		if err := rows.Scan(&x.Serial, &x.How, &issued, &expires, &used); err != nil {
			return nil, err
		}
		if x.Issued, err = wire.ParseTime(issued); err != nil {
			return nil, err
		}
		if x.Expires, err = wire.ParseTime(expires); err != nil {
			return nil, err
		}
		if used != "" {
			if x.Used, err = wire.ParseTime(used); err != nil {
				return nil, err
			}
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

// renew certifies the enrolled key of a terminal again. The earlier certificate stays good
// until its end, so that a lost answer costs nothing.
func (c *Central) renew(ctx context.Context, name, how string, q wire.RenewRequest) (wire.RenewAnswer, error) {
	csr, err := parseCSR(q.CSR)
	if err != nil {
		return wire.RenewAnswer{}, wireError(wire.KindBadRequest, "certificate request: %v", err)
	}
	offered, err := renewalKey(q.RenewalKey)
	if err != nil {
		return wire.RenewAnswer{}, wireError(wire.KindBadRequest, "renewal key: %v", err)
	}
	now := c.opt.Now()
	a := wire.RenewAnswer{Protocol: wire.Protocol, Time: wire.FormatTime(now)}
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var state TerminalState
		var reason string
		var spki, renewal []byte
		err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING state, reason, public_key, renewal_key", name).Scan(&state, &reason, &spki, &renewal)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return wireError(wire.KindForbidden, "terminal %.64q is not known here: enrol it", name)
		case err != nil:
			return err
		case state != Enrolled:
			return wireError(wire.KindForbidden, "terminal %s is %s: %s", name, state, reason)
		case how == howRenewedLate && !signedBy(renewal, wire.RenewText(name, q.CSR), q.Signature):
			return wireError(wire.KindForbidden, "the certificate of terminal %s has ended, and the request is not signed by the key that renews: enrol it again", name)
		}
		key, err := parseKey(spki)
		if err != nil {
			return err
		}
		if !key.Equal(csr.PublicKey) {
			return wireError(wire.KindForbidden, "another key than the one that terminal %s enrolled: enrol it again", name)
		}
		if how == howRenewed && renewal == nil && offered != nil {
			if _, err := tx.ExecContext(ctx, "UPDATE terminals SET renewal_key = $1 WHERE name = $2", offered, name); err != nil {
				return err
			}
		}
		if a.Certificate, err = c.recent(ctx, tx, name, now); err != nil || a.Certificate != "" {
			return err
		}
		a.Certificate, err = c.issue(ctx, tx, name, key, how, now)
		return err
	})
	if err != nil {
		return wire.RenewAnswer{}, err
	}
	c.opt.Log.Info("certificate renewed", "terminal", name, "how", how)
	return a, nil
}

// recent is the newest certificate when it is of the last day and of the present CA, ""
// otherwise.
func (c *Central) recent(ctx context.Context, tx *sql.Tx, name string, now time.Time) (string, error) {
	var text string
	err := tx.QueryRowContext(ctx, "SELECT certificate FROM certificates WHERE terminal = $1 AND issued > $2 AND issued <= $3 ORDER BY issued DESC LIMIT 1",
		name, wire.FormatTime(now.Add(-renewEvery)), wire.FormatTime(now)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil { // of a program that kept none
		return "", nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.CheckSignatureFrom(c.keys.ca) != nil {
		return "", nil
	}
	return text, nil
}

// signedBy tells whether a P-256 key, PKIX, signed a text. No key has signed nothing.
func signedBy(spki []byte, text, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || spki == nil {
		return false
	}
	key, err := parseKey(spki)
	sum := sha256.Sum256([]byte(text))
	return err == nil && ecdsa.VerifyASN1(key, sum[:], raw)
}

// serveRenew takes the terminal's name from the certificate where one is shown, and
// otherwise believes the key that renews.
func (c *Central) serveRenew(w http.ResponseWriter, r *http.Request) {
	var q wire.RenewRequest
	err := read(w, r, wire.MaxRequest, &q)
	if err == nil {
		err = speaks(q.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	name, how := q.Terminal, howRenewedLate
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && !c.opt.Now().After(r.TLS.PeerCertificates[0].NotAfter) {
		who, _, err := c.identify(r.Context(), r.TLS.PeerCertificates[0])
		if err != nil {
			c.fail(w, r, err)
			return
		}
		name, how = who.name, howRenewed
	}
	a, err := c.renew(r.Context(), name, how, q)
	c.answer(w, r, a, err)
}

// noteUse notes the first hello with a certificate.
func (c *Central) noteUse(ctx context.Context, name, serial string) error {
	var fresh int
	err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM certificates WHERE terminal = $1 AND serial = $2 AND used = ''", name, serial).Scan(&fresh)
	if err != nil || fresh == 0 {
		return err
	}
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE certificates SET used = $1 WHERE terminal = $2 AND serial = $3 AND used = ''", c.now(), name, serial)
		return err
	})
}
