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
	"time"
	"unicode"
	"unicode/utf8"

	"grattoir/sync/wire"
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
	return appendAudit(ctx, tx, c.now(), act, operator, about)
}

func appendAudit(ctx context.Context, tx *sql.Tx, now, act, operator, about string) error {
	a := AuditLine{Version: 1, Time: now, Act: act, Operator: operator, About: oneLine(about), Prev: noHash}
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

// intent is what a context says of the changes that are made under it.
type intent struct {
	looking              bool
	act, operator, about string
	written              bool // the act's line is durable
}

type intentKey struct{}

// Acting is a context for one act, whose line the audit gets in the transaction of its first
// change, so that neither is there without the other. Acted tells whether that has happened.
func Acting(ctx context.Context, act, operator, about string) context.Context {
	return context.WithValue(ctx, intentKey{}, &intent{act: act, operator: operator, about: about})
}

// Looking is a context under which nothing can be changed.
func Looking(ctx context.Context) context.Context {
	return context.WithValue(ctx, intentKey{}, &intent{looking: true})
}

// Acted tells whether the line of a context's act stands in the audit.
func Acted(ctx context.Context) bool {
	in, _ := ctx.Value(intentKey{}).(*intent)
	return in != nil && in.written
}

// errLooking is a fault of ours: a command that is said to look alone changes something.
var errLooking = errors.New("this only looks, and nothing was changed")

// witnessed is a change as its context wants it, and what to call when it is durable. A
// change that the database runs again writes the line again, in the transaction that counts.
func witnessed(ctx context.Context, act func(context.Context, *sql.Tx) error) (_ func(context.Context, *sql.Tx) error, durable func()) {
	in, _ := ctx.Value(intentKey{}).(*intent)
	switch {
	case in == nil || in.written:
		return act, func() {}
	case in.looking:
		return func(context.Context, *sql.Tx) error { return errLooking }, func() {}
	}
	return func(ctx context.Context, tx *sql.Tx) error {
		if err := act(ctx, tx); err != nil {
			return err
		}
		return appendAudit(ctx, tx, wire.FormatTime(time.Now()), in.act, in.operator, in.about)
	}, func() { in.written = true }
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
