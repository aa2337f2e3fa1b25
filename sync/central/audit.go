package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The audit has every sign-in, every look at personal data, every export and every act of
// the console, and each act upon the register of identities. Nobody can change a line
// without breaking the chain behind it; its newest hash, noted elsewhere, shows what was
// cut off its end. The table's name is from the time when it had the register's acts alone.

// AuditLine is a line of central's audit: one line of JSON, hashed as its bytes, each
// carrying the hash of the one before.
type AuditLine struct {
	Version  int    `json:"v"`
	Seq      int64  `json:"seq"` // from 1
	Time     string `json:"time"`
	Act      string `json:"act"`      // ask, agree, open, not-opened, erase, sign-in, sign-in-failed, sign-out, user-..., look, export, or an act of the console
	Operator string `json:"operator"` // a user, system, or who ran a command on central's machine; "" for nobody known
	About    string `json:"about"`    // never anything that tells who a winner is
	Prev     string `json:"prev"`     // 64 hexadecimal digits, zeros before the first
}

// OfIdentities tells whether an act is one upon the register of identities.
func OfIdentities(act string) bool {
	return slices.Contains([]string{"ask", "agree", "open", "not-opened", "erase"}, act)
}

// auditLine appends a line within a transaction: what it tells of is durable with it, or
// neither is.
func (c *Central) auditLine(ctx context.Context, tx *sql.Tx, act, operator, about string) error {
	a := AuditLine{Version: 1, Time: c.now(), Act: act, Operator: operator, About: oneLine(about), Prev: noHash}
	var err error
	if a.Seq, err = take(ctx, tx, auditLines); err != nil {
		return err
	}
	var hash []byte
	switch err := tx.QueryRowContext(ctx, "SELECT hash FROM identity_audit ORDER BY seq DESC LIMIT 1").Scan(&hash); {
	case err == nil:
		a.Prev = hex.EncodeToString(hash)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(line)
	_, err = tx.ExecContext(ctx, "INSERT INTO identity_audit(seq, line, hash) VALUES($1, $2, $3)", a.Seq, string(line), sum[:])
	return err
}

// maxAbout bounds what a line tells, in bytes.
const maxAbout = 600

// oneLine bounds what strangers can make a line hold.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= maxAbout {
		return text
	}
	end := maxAbout
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// Note appends a line to the audit. It is durable when Note returns nil, so whoever shows
// or exports something calls it first. Operator is who does it; about is cut at 600 bytes.
func (c *Central) Note(ctx context.Context, act, operator, about string) error {
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return c.auditLine(ctx, tx, act, operator, about) })
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// AuditHead is how far the audit has come. Noted elsewhere it shows later that nothing was
// cut off.
type AuditHead struct {
	Lines int64  `json:"lines"`
	Head  string `json:"head"` // hash of the newest line, 64 hexadecimal digits
}

// ErrAudit means that a line of the audit was changed, removed or added.
var ErrAudit = errors.New("the audit is not as it was written")

// Audit hands each line to each, oldest first, and holds the chain against them. The error
// is ErrAudit at the first line that was altered; each has had the lines before it.
func (c *Central) Audit(ctx context.Context, each func(AuditLine) error) (AuditHead, error) {
	h := AuditHead{Head: noHash}
	err := eachRow(ctx, c.store.reader(), "SELECT seq, line, hash FROM identity_audit ORDER BY seq", func(row scanner) error {
		var seq int64
		var line string
		var hash []byte
		var a AuditLine
		if err := row.Scan(&seq, &line, &hash); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(line))
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Seq != seq || seq != h.Lines+1 || a.Prev != h.Head || string(sum[:]) != string(hash) {
			return fmt.Errorf("%w: it breaks at line %d: a line was changed, removed or added", ErrAudit, h.Lines+1)
		}
		h = AuditHead{Lines: seq, Head: hex.EncodeToString(sum[:])}
		return each(a)
	})
	return h, err
}

// NewestAudit gives up to limit lines below a number, newest first; 0 is the newest of all.
// It shows and verifies nothing: Audit does.
func (c *Central) NewestAudit(ctx context.Context, below int64, limit int) ([]AuditLine, error) {
	if below < 1 {
		below = 1 << 62
	}
	list := []AuditLine{}
	err := eachRow(ctx, c.store.reader(), "SELECT seq, line FROM identity_audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2", func(row scanner) error {
		var seq int64
		var line string
		var a AuditLine
		if err := row.Scan(&seq, &line); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrAudit, seq, err)
		}
		list = append(list, a)
		return nil
	}, below, limit)
	return list, err
}
