package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// Identities of winners lie here as terminals sealed them, apart from claims. One user of
// the role security asks for a payment's identity, with a reason; another one agrees; the
// first then looks, once, with the register's private key, which is no file of central's.
// Each act is a line of the audit, committed before anything is shown. Whoever calls has
// seen the user's password or session. After its term a record is erased, its row stays.

// requestLife is how long a request may be agreed to, and then how long it may be opened.
const requestLife = time.Hour

// serveIdentities stores a terminal's sealed identities.
func (c *Central) serveIdentities(w http.ResponseWriter, r *http.Request, who caller) {
	var u wire.IdentityUpload
	err := read(w, r, wire.MaxIdentityUpload, &u)
	if err == nil {
		err = speaks(u.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.storeIdentities(r.Context(), who, u)
	c.answer(w, r, a, err)
}

// storeIdentities stores records that are new, in one transaction. One that is here
// already, or was and is erased, is as good as stored; with other bytes it is refused.
func (c *Central) storeIdentities(ctx context.Context, who caller, u wire.IdentityUpload) (wire.IdentityAnswer, error) {
	a := wire.IdentityAnswer{Protocol: wire.Protocol, Stored: []string{}}
	if n := len(u.Records); n < 1 || n > wire.MaxIdentities {
		return a, wireError(wire.KindBadRequest, "%d identities, want 1 to %d", n, wire.MaxIdentities)
	}
	for _, s := range u.Records {
		if err := s.Check(); err != nil {
			return a, wireError(wire.KindBadRequest, "%v", err)
		}
		a.Stored = append(a.Stored, s.Record)
	}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := stillEnrolled(ctx, tx, who.name); err != nil {
			return err
		}
		for _, s := range u.Records {
			if err := c.storeIdentity(ctx, tx, who.name, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wire.IdentityAnswer{}, err
	}
	c.committed()
	return a, nil
}

// stillEnrolled refuses a terminal that was suspended since its request began.
func stillEnrolled(ctx context.Context, tx *sql.Tx, terminal string) error {
	var state TerminalState
	if err := tx.QueryRowContext(ctx, "SELECT state FROM terminals WHERE name = $1", terminal).Scan(&state); err != nil {
		return err
	}
	if state != Enrolled {
		return wireError(wire.KindForbidden, "terminal %s is %s", terminal, state)
	}
	return nil
}

func (c *Central) storeIdentity(ctx context.Context, tx *sql.Tx, terminal string, s wire.SealedIdentity) error {
	var record people.RecordID
	if err := record.UnmarshalText([]byte(s.Record)); err != nil {
		return err
	}
	digest := sha256.Sum256(s.Sealed)
	var held []byte
	err := tx.QueryRowContext(ctx, "SELECT digest FROM identities WHERE terminal = $1 AND record = $2", terminal, record[:]).Scan(&held)
	switch {
	case err == nil && string(held) == string(digest[:]):
		return nil
	case err == nil:
		return wireError(wire.KindBadRequest, "record %s has other bytes than the one held here", s.Record)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	err = once(tx.ExecContext(ctx, `INSERT INTO identities(terminal, record, sealed, digest, received) VALUES($1, $2, $3, $4, $5)
		ON CONFLICT(terminal, record) DO NOTHING`, terminal, record[:], s.Sealed, digest[:], c.now()))
	for _, claim := range s.Claims {
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO identity_claims(claim, terminal, record) VALUES($1, $2, $3)", claim, terminal, record[:])
		}
	}
	return err
}

// IdentityRequest asks to read whom a payment was made to.
type IdentityRequest struct {
	Number   int64     `json:"number"`
	Claim    string    `json:"claim"` // id of the payment
	Operator string    `json:"operator"`
	Reason   string    `json:"reason"`
	Asked    time.Time `json:"asked"`
	Agreed   time.Time `json:"agreed,omitzero"`
	AgreedBy string    `json:"agreed_by"`
	Expires  time.Time `json:"expires"` // until then it may be agreed to, and once it was, opened
	Records  int       `json:"records"` // that can be opened
	Opened   time.Time `json:"opened,omitzero"`
	OpenedBy string    `json:"opened_by"`
}

// mayLook refuses whoever is no user of the role security, or no longer. The row is held,
// so that a suspension comes before the act or after it.
func mayLook(ctx context.Context, tx *sql.Tx, name string) error {
	var role Role
	var suspended int
	err := tx.QueryRowContext(ctx, "UPDATE users SET name = name WHERE name = $1 RETURNING role, suspended", plain(name)).Scan(&role, &suspended)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err != nil || role != RoleSecurity || suspended != 0 {
		return because(BecauseRoleMissing, fmt.Errorf("%.32q: %w: an identity is for users of the role security: central user list shows them", name, ErrRefused), name)
	}
	return nil
}

// ClaimOf is the id of the payment that a slip's ledger number names. The errors include ErrNotFound.
func (c *Central) ClaimOf(ctx context.Context, terminal string, n validate.EntryNumber) (string, error) {
	var line []byte
	err := c.store.reader().QueryRowContext(ctx, "SELECT line FROM entries WHERE terminal = $1 AND epoch = $2 AND seq = $3", terminal, n.Epoch, n.Seq).Scan(&line)
	if errors.Is(err, sql.ErrNoRows) {
		return "", because(BecauseEntryUnknown, fmt.Errorf("entry %v of terminal %.64q: %w", n, terminal, ErrNotFound), n, terminal)
	}
	if err != nil {
		return "", err
	}
	e, err := ledger.ParseEntry(line)
	if err != nil {
		return "", err
	}
	claim, err := e.Claim()
	if err != nil {
		return "", because(BecauseEntryNoPayment, fmt.Errorf("entry %v of terminal %.64q is no payment: %w", n, terminal, ErrRefused), n, terminal)
	}
	return claim.Claim, nil
}

// AskIdentity notes that a user wants to read whom a payment was made to, and why.
// The errors include ErrNotFound where no record of it is here, and ErrRefused.
func (c *Central) AskIdentity(ctx context.Context, claim, operator, reason string) (IdentityRequest, error) {
	if err := errors.Join(plainText("operator", operator, 64), plainText("reason", reason, 200)); err != nil {
		return IdentityRequest{}, err
	}
	now := c.opt.Now()
	q := IdentityRequest{Claim: claim, Operator: operator, Reason: reason, Asked: now.UTC(), Expires: now.Add(requestLife).UTC()}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := mayLook(ctx, tx, operator); err != nil {
			return err
		}
		list, err := identitiesOf(ctx, tx, claim)
		if err != nil {
			return err
		}
		if q.Records = len(list); q.Records == 0 {
			return because(BecauseIdentityUnknown, fmt.Errorf("identity of the payment %.32q: %w: none was recorded, or it has not arrived, or it is erased", claim, ErrNotFound), claim)
		}
		if q.Number, err = take(ctx, tx, identityAsked); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO identity_requests(number, claim, operator, reason, asked) VALUES($1, $2, $3, $4, $5)", q.Number, claim, operator, reason, wire.FormatTime(now))
		if err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "ask", operator, fmt.Sprintf("request %d, payment %s: %s", q.Number, claim, reason))
	})
	return q, err
}

// plainText bounds what people type, before it stands in the audit.
func plainText(what, text string, most int) error {
	if text == "" || len(text) > most || strings.TrimSpace(text) != text || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return because(BecauseTextBounds, fmt.Errorf("%s of %d bytes: %w: want 1 to %d printable bytes on one line", what, len(text), ErrRefused, most), len(text), most)
	}
	return nil
}

// identitiesOf are the sealed records of a payment, without the erased ones.
func identitiesOf(ctx context.Context, tx *sql.Tx, claim string) ([]people.Sealed, error) {
	rows, err := tx.QueryContext(ctx, `SELECT i.terminal, i.record, i.sealed FROM identity_claims c JOIN identities i ON i.terminal = c.terminal AND i.record = c.record
		WHERE c.claim = $1 AND i.sealed IS NOT NULL ORDER BY i.received, i.terminal, i.record`, claim)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []people.Sealed
	for rows.Next() {
		var s people.Sealed
		var id []byte
		if err := rows.Scan(&s.Terminal, &id, &s.Bytes); err != nil {
			return nil, err
		}
		if len(id) != len(s.Record) {
			return nil, fmt.Errorf("an identity of terminal %s has an id of %d bytes", s.Terminal, len(id))
		}
		s.Record = people.RecordID(id)
		list = append(list, s)
	}
	return list, rows.Err()
}

// AgreeIdentity lets the one who asked look, once, within an hour. It is another user's to
// say, within an hour of the request. The errors include ErrNotFound and ErrRefused.
func (c *Central) AgreeIdentity(ctx context.Context, number int64, operator string) error {
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		q, err := holdRequest(ctx, tx, number)
		if err == nil {
			err = mayLook(ctx, tx, operator)
		}
		now := c.opt.Now()
		switch {
		case err != nil:
			return err
		case q.Operator == operator:
			return because(BecauseAgreeSelf, fmt.Errorf("request %d: %w: %s asked for it, so somebody else must agree", number, ErrRefused, q.Operator), number, q.Operator)
		case q.AgreedBy != "":
			return because(BecauseAgreedAlready, fmt.Errorf("request %d: %w: %s agreed already", number, ErrRefused, q.AgreedBy), number, q.AgreedBy)
		case now.After(q.Expires):
			return because(BecauseRequestOld, fmt.Errorf("request %d: %w: it is older than %v: ask again", number, ErrRefused, requestLife), number, requestLife)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE identity_requests SET agreed = $1, agreed_by = $2 WHERE number = $3", wire.FormatTime(now), operator, number); err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "agree", operator, fmt.Sprintf("request %d of %s, payment %s: %s", number, q.Operator, q.Claim, q.Reason))
	})
}

// OpenIdentity opens what the same user asked for and another agreed to, with the register's
// private key. A request is opened once. The audit says so before the
// key is tried; what does not open is another line of it. A terminal may name any payment,
// so records that do not open hide none that do: these come with the error of those. The
// errors include ErrNotFound, ErrRefused and people.ErrSealed.
func (c *Central) OpenIdentity(ctx context.Context, number int64, operator string, key people.RegisterSecretKey) ([]people.Filing, error) {
	var claim string
	var list []people.Sealed
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if claim, err = c.takeRequest(ctx, tx, number, operator); err != nil {
			return err
		}
		if list, err = identitiesOf(ctx, tx, claim); err != nil {
			return err
		}
		if len(list) == 0 {
			return because(BecauseIdentityErased, fmt.Errorf("request %d: %w: the identity was erased after its term", number, ErrNotFound), number)
		}
		return c.auditLine(ctx, tx, "open", operator, fmt.Sprintf("request %d, payment %s: %d records", number, claim, len(list)))
	})
	if err != nil {
		return nil, err
	}
	filings, err := openAll(list, claim, key)
	if err != nil {
		failed := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if len(filings) == 0 { // with the right key it may be tried again
				if _, err := tx.ExecContext(ctx, "UPDATE identity_requests SET opened = '', opened_by = '' WHERE number = $1", number); err != nil {
					return err
				}
			}
			return c.auditLine(ctx, tx, "not-opened", operator, fmt.Sprintf("request %d: %s", number, unopened(list, filings)))
		})
		return filings, errors.Join(err, failed)
	}
	return filings, nil
}

// unopened names the records that are not among the filings, as far as a line of the audit
// has room.
func unopened(list []people.Sealed, filings []people.Filing) string {
	const most = 5
	var names []string
	for _, s := range list {
		if !slices.ContainsFunc(filings, func(f people.Filing) bool { return f.Record == s.Record && f.Terminal == s.Terminal }) {
			names = append(names, fmt.Sprintf("record %v of terminal %.64s", s.Record, s.Terminal))
		}
	}
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(names, ", ")
}

const requestColumns = "number, claim, operator, reason, asked, agreed, agreed_by, opened, opened_by"

// readRequest reads requestColumns, and more columns behind them.
func readRequest(scan func(...any) error, more ...any) (q IdentityRequest, err error) {
	var asked, agreed, opened string
	if err := scan(append([]any{&q.Number, &q.Claim, &q.Operator, &q.Reason, &asked, &agreed, &q.AgreedBy, &opened, &q.OpenedBy}, more...)...); err != nil {
		return q, err
	}
	for _, at := range []struct {
		text string
		into *time.Time
	}{{asked, &q.Asked}, {agreed, &q.Agreed}, {opened, &q.Opened}} {
		if at.text != "" {
			if *at.into, err = wire.ParseTime(at.text); err != nil {
				return q, fmt.Errorf("request %d: %w", q.Number, err)
			}
		}
	}
	q.Expires = q.Asked.Add(requestLife)
	if q.AgreedBy != "" {
		q.Expires = q.Agreed.Add(requestLife)
	}
	return q, nil
}

// holdRequest reads a request and keeps others from it until the transaction ends.
func holdRequest(ctx context.Context, tx *sql.Tx, number int64) (IdentityRequest, error) {
	q, err := readRequest(tx.QueryRowContext(ctx, "UPDATE identity_requests SET opened = opened WHERE number = $1 RETURNING "+requestColumns, number).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = because(BecauseRequestUnknown, fmt.Errorf("request %d: %w: central identity list shows them", number, ErrNotFound), number)
	}
	return q, err
}

// takeRequest holds a request against the two-person rule and marks it opened.
func (c *Central) takeRequest(ctx context.Context, tx *sql.Tx, number int64, operator string) (claim string, err error) {
	q, err := holdRequest(ctx, tx, number)
	if err == nil {
		err = mayLook(ctx, tx, operator)
	}
	now := c.opt.Now()
	switch {
	case err != nil:
		return "", err
	case q.Operator != operator:
		return "", because(BecauseRequestOfOther, fmt.Errorf("request %d: %w: %s asked for it, and looks", number, ErrRefused, q.Operator), number, q.Operator)
	case q.AgreedBy == "":
		return "", because(BecauseNobodyAgreed, fmt.Errorf("request %d: %w: nobody has agreed to it: central identity agree %d", number, ErrRefused, number), number)
	case q.OpenedBy != "":
		return "", because(BecauseOpenedAlready, fmt.Errorf("request %d: %w: it was opened at %s: ask again", number, ErrRefused, wire.FormatTime(q.Opened)), number, q.Opened)
	case now.After(q.Expires):
		return "", because(BecauseAgreementOld, fmt.Errorf("request %d: %w: it was agreed to more than %v ago: ask again", number, ErrRefused, requestLife), number, requestLife)
	}
	_, err = tx.ExecContext(ctx, "UPDATE identity_requests SET opened = $1, opened_by = $2 WHERE number = $3", wire.FormatTime(now), operator, number)
	return q.Claim, err
}

// openAll opens records and holds what is inside against the payment that was asked for.
// The error is of all that are not among the filings.
func openAll(list []people.Sealed, claim string, key people.RegisterSecretKey) ([]people.Filing, error) {
	var filings []people.Filing
	var errs []error
	for _, s := range list {
		f, err := key.Open(s)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !slices.ContainsFunc(f.Payments, func(p people.Payment) bool { return p.Claim == claim }):
			errs = append(errs, fmt.Errorf("record %v of terminal %s: %w: it is not of the payment %s that its terminal named", s.Record, s.Terminal, people.ErrSealed, claim))
		default:
			filings = append(filings, f)
		}
	}
	return filings, errors.Join(errs...)
}

// IdentityRequests lists all requests, newest first.
func (c *Central) IdentityRequests(ctx context.Context) ([]IdentityRequest, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT "+requestColumns+`,
		(SELECT count(*) FROM identity_claims c JOIN identities i ON i.terminal = c.terminal AND i.record = c.record WHERE c.claim = identity_requests.claim AND i.sealed IS NOT NULL)
		FROM identity_requests ORDER BY number DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []IdentityRequest{}
	for rows.Next() {
		var records int
		q, err := readRequest(rows.Scan, &records)
		if err != nil {
			return nil, err
		}
		q.Records = records
		list = append(list, q)
	}
	return list, rows.Err()
}

// eraseRun is how many records go in one transaction.
const eraseRun = 500

// EraseIdentities erases the records that were received longer than a term ago, and
// overwrites their bytes in the database and its log. The rows stay, without them and
// without the payments they were for. Copies of the database are not its business.
func (c *Central) EraseIdentities(ctx context.Context, term time.Duration) (int, error) {
	if term <= 0 {
		return 0, fmt.Errorf("a term of %v: %w: want more than none", term, ErrRefused)
	}
	before := wire.FormatTime(c.opt.Now().Add(-term))
	total := 0
	for {
		n := 0
		err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			n, err = c.eraseSome(ctx, tx, before)
			return err
		})
		if err != nil {
			return total, err
		}
		if total += n; n < eraseRun {
			break
		}
	}
	return total, c.store.forget(ctx) // also what a reader kept from being forgotten the last time
}

func (c *Central) eraseSome(ctx context.Context, tx *sql.Tx, before string) (int, error) {
	rows, err := tx.QueryContext(ctx, "SELECT terminal, record FROM identities WHERE erased = '' AND received < $1 ORDER BY received LIMIT $2", before, eraseRun)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	type key struct {
		terminal string
		record   []byte
	}
	var due []key
	for rows.Next() {
		var k key
		if err := rows.Scan(&k.terminal, &k.record); err != nil {
			return 0, err
		}
		due = append(due, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(due) == 0 {
		return 0, err
	}
	for _, k := range due {
		if _, err := tx.ExecContext(ctx, "UPDATE identities SET sealed = NULL, erased = $1 WHERE terminal = $2 AND record = $3", c.now(), k.terminal, k.record); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM identity_claims WHERE terminal = $1 AND record = $2", k.terminal, k.record); err != nil {
			return 0, err
		}
	}
	return len(due), c.auditLine(ctx, tx, "erase", "system", fmt.Sprintf("%d records received before %s", len(due), before))
}
