package central

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
)

// TerminalState is where a terminal stands. The states are a partition.
type TerminalState string

const (
	NeverSeen TerminalState = "never-seen" // added, not enrolled yet
	Enrolled  TerminalState = "enrolled"
	Suspended TerminalState = "suspended" // every request is refused until it enrols again
)

// Terminal is what central knows of one terminal. Times are zero where nothing is known.
type Terminal struct {
	Name        string        `json:"name"`
	State       TerminalState `json:"state"`
	Reason      string        `json:"reason"` // why suspended
	Frozen      wire.Stop     `json:"frozen"` // what it must not pay for until a person has looked, "" for nothing
	FrozenAt    time.Time     `json:"frozen_at,omitzero"`
	Recover     int64         `json:"recover,omitzero"` // journal epoch that a person has agreed to, 0 for none
	Region      string        `json:"region"`           // where it stands, "" for nowhere in particular
	Shop        string        `json:"shop"`             // the shop it stands in; "" is one of its own
	Added       time.Time     `json:"added,omitzero"`
	Enrolled    time.Time     `json:"enrolled,omitzero"`
	CertSerial  string        `json:"cert_serial"`
	CertExpires time.Time     `json:"cert_expires,omitzero"`
	Contact     time.Time     `json:"contact,omitzero"` // last hello or upload
	Program     string        `json:"program"`
	Acked       wire.Position `json:"acked"` // end of the journal held here
	Head        wire.Position `json:"head"`  // end the terminal last told of
	Snapshot    int64         `json:"snapshot"`
	Feed        int64         `json:"feed"`
	Unsent      int64         `json:"unsent"`            // as told in the last hello
	SkewMS      *int64        `json:"skew_ms,omitempty"` // device clock minus central's
	DiskFree    int64         `json:"disk_free"`         // bytes
	Faults      []string      `json:"faults"`
	Stopped     string        `json:"stopped"` // why it may not pay, "" while it may; see StopPayments
}

const terminalColumns = `name, state, reason, frozen, frozen_at, recover_epoch, region, shop, added, enrolled, cert_serial, cert_expires, contact, program, ack_epoch, ack_seq, ack_hash,
	head_epoch, head_seq, head_hash, snapshot, feed, unsent, skew_ms, disk_free, faults, stopped`

type scanner interface{ Scan(...any) error }

func scanTerminal(row scanner) (Terminal, error) {
	var t Terminal
	var added, enrolled, expires, contact, frozen, faults string
	err := row.Scan(&t.Name, &t.State, &t.Reason, &t.Frozen, &frozen, &t.Recover, &t.Region, &t.Shop, &added, &enrolled, &t.CertSerial, &expires, &contact, &t.Program, &t.Acked.Epoch, &t.Acked.Seq, &t.Acked.Hash,
		&t.Head.Epoch, &t.Head.Seq, &t.Head.Hash, &t.Snapshot, &t.Feed, &t.Unsent, &t.SkewMS, &t.DiskFree, &faults, &t.Stopped)
	if err != nil {
		return t, err
	}
	for _, at := range []struct {
		text string
		into *time.Time
	}{{added, &t.Added}, {enrolled, &t.Enrolled}, {expires, &t.CertExpires}, {contact, &t.Contact}, {frozen, &t.FrozenAt}} {
		if at.text == "" {
			continue
		}
		if *at.into, err = wire.ParseTime(at.text); err != nil {
			return t, fmt.Errorf("terminal %s: %w", t.Name, err)
		}
	}
	if err := json.Unmarshal([]byte(faults), &t.Faults); err != nil {
		return t, fmt.Errorf("terminal %s: faults: %w", t.Name, err)
	}
	return t, nil
}

// Terminals lists all terminals by name.
func (c *Central) Terminals(ctx context.Context) ([]Terminal, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT "+terminalColumns+" FROM terminals ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Terminal{}
	for rows.Next() {
		t, err := scanTerminal(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// Terminal gives one terminal, or ErrNotFound.
func (c *Central) Terminal(ctx context.Context, name string) (Terminal, error) {
	t, err := scanTerminal(c.store.reader().QueryRowContext(ctx, "SELECT "+terminalColumns+" FROM terminals WHERE name = $1", name))
	if errors.Is(err, sql.ErrNoRows) {
		return t, because(BecauseTerminalUnknown, fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", name, ErrNotFound), name)
	}
	return t, err
}

// DeviceKey is a key that a terminal enrolled, and when it was the terminal's.
type DeviceKey struct {
	Public   *ecdsa.PublicKey
	Enrolled time.Time
	Until    time.Time // when the next one was enrolled, zero for the newest
}

// DeviceKeys are all keys that a terminal enrolled, the newest first, whatever its state
// now: each proves the heads and the slips that were signed while it was the terminal's.
// The errors include ErrNotFound, and ErrRefused for a terminal that never enrolled.
func (c *Central) DeviceKeys(ctx context.Context, name string) ([]DeviceKey, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT enrolled, public_key FROM device_keys WHERE terminal = $1 ORDER BY number DESC", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []DeviceKey
	for rows.Next() {
		var k DeviceKey
		var enrolled string
		var spki []byte
		if err := rows.Scan(&enrolled, &spki); err != nil {
			return nil, err
		}
		if k.Enrolled, err = wire.ParseTime(enrolled); err == nil {
			k.Public, err = parseKey(spki)
		}
		if err != nil {
			return nil, fmt.Errorf("terminal %s: its key of %s: %w", name, enrolled, err)
		}
		if len(list) > 0 {
			k.Until = list[len(list)-1].Enrolled
		}
		list = append(list, k)
	}
	if err := rows.Err(); err != nil || len(list) > 0 {
		return list, err
	}
	if _, err := c.Terminal(ctx, name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("terminal %s: %w: it has no key before it enrols", name, ErrRefused)
}

// terminalName is what may stand in a certificate, in signed texts and in file names.
var terminalName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Suspend refuses every request of the terminal from now on, with its certificate and
// all. To let it work again, AddTerminal gives it a new code.
func (c *Central) Suspend(ctx context.Context, name, reason string) error {
	if len(reason) > 200 {
		return fmt.Errorf("suspend %.64q: %w: the reason has %d bytes, at most 200", name, ErrRefused, len(reason))
	}
	var number int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "UPDATE terminals SET state = $1, reason = $2, frozen = '', frozen_at = '', recover_epoch = 0 WHERE name = $3", Suspended, reason, name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(because(BecauseTerminalUnknown, fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", name, ErrNotFound), name), err)
		}
		if number, err = revoke(ctx, tx, name, c.now(), reason); err != nil {
			return err
		}
		// A code that lies about must not let the terminal in again.
		_, err = tx.ExecContext(ctx, "DELETE FROM enrol_codes WHERE terminal = $1", name)
		return err
	})
	if err == nil {
		c.visitors.end(name, number)
	}
	return err
}

// SetShop says in which shop a terminal stands; "" is a shop of its own, which has the
// terminal's name. Two tills of one shop are two terminals, and reports add them up. The
// errors include ErrNotFound and ErrRefused.
func (c *Central) SetShop(ctx context.Context, name, shop string) error {
	if shop != "" && !terminalName.MatchString(shop) {
		return fmt.Errorf("shop %.64q: %w: want letters, digits, '.', '_' or '-', at most 63, the first a letter or digit", shop, ErrRefused)
	}
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "UPDATE terminals SET shop = $1 WHERE name = $2", shop, name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(because(BecauseTerminalUnknown, fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", name, ErrNotFound), name), err)
		}
		return nil
	})
}

// caller is the terminal that made a request.
type caller struct {
	name string
	key  *ecdsa.PublicKey
}

// identify holds a verified client certificate against the database, at each request:
// a suspension or a new enrolment takes effect at once. The key counts, not the
// certificate's number: an old and a new one overlap, also when the tables were put back to
// before the new one was made. After is the newest revocation that the database knew of.
func (c *Central) identify(ctx context.Context, cert *x509.Certificate) (who caller, after int64, err error) {
	name := cert.Subject.CommonName
	var state TerminalState
	var reason string
	var spki []byte
	err = c.store.reader().QueryRowContext(ctx, "SELECT state, reason, public_key, (SELECT value FROM counters WHERE name = $1) FROM terminals WHERE name = $2", revoked, name).
		Scan(&state, &reason, &spki, &after)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return caller{}, 0, wireError(wire.KindForbidden, "terminal %.64q is not known here: enrol it", name)
	case err != nil:
		return caller{}, 0, err
	case state == Suspended:
		return caller{}, 0, wireError(wire.KindForbidden, "terminal %s is suspended: %s", name, reason)
	case state != Enrolled || !bytes.Equal(spki, cert.RawSubjectPublicKeyInfo):
		return caller{}, 0, wireError(wire.KindForbidden, "this certificate of terminal %s is no longer good, another device was enrolled: enrol this one again", name)
	}
	key, err := parseKey(spki)
	return caller{name, key}, after, err
}

func parseKey(spki []byte) (*ecdsa.PublicKey, error) {
	k, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, err
	}
	key, ok := k.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a %T is no P-256 key", k)
	}
	return key, nil
}

// hello keeps what a terminal tells of itself.
func (c *Central) hello(ctx context.Context, who caller, h wire.Hello) (wire.HelloAnswer, error) {
	if err := plausible(h); err != nil {
		return wire.HelloAnswer{}, wireError(wire.KindBadRequest, "hello: %v", err)
	}
	if err := errors.Join(h.CheckLooks(), h.Software.Check()); err != nil {
		return wire.HelloAnswer{}, wireError(wire.KindBadRequest, "hello: %v", err)
	}
	now := c.opt.Now()
	var skew *int64
	if at, err := time.Parse(time.RFC3339Nano, h.DeviceTime); err == nil {
		skew = new(at.Sub(now).Milliseconds())
	}
	faults, err := json.Marshal(slices.Concat([]string{}, h.Faults)) // a list, never null
	if err != nil {
		return wire.HelloAnswer{}, err
	}
	var recover int64
	var frozen *wire.Error
	var restored *wire.Restored
	var bench string
	var offer *wire.Offer
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		at := wire.FormatTime(now)
		if err = watch(ctx, tx, who.name, at, h); err != nil {
			return err
		}
		if frozen, err = c.lives(ctx, tx, who.name, at, h); err != nil || frozen != nil {
			return err // a freeze is committed with its refusal
		}
		if err = c.notice(ctx, tx, who.name, at, h.Acked); err != nil {
			return err
		}
		if recover, err = c.stopped(ctx, tx, who.name, at, h); err != nil {
			return err
		}
		if err = keepLooks(ctx, tx, who.name, at, h); err != nil {
			return err
		}
		if err = noteChange(ctx, tx, who.name, now, h); err != nil {
			return err
		}
		if bench, err = c.keepBench(ctx, tx, who.name, at, h.Bench); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE terminals SET contact = $1, program = $2, head_epoch = $3, head_seq = $4, head_hash = $5, snapshot = $6, feed = $7,
			unsent = $8, skew_ms = $9, disk_free = $10, faults = $11, trust = $12, tells = $13 WHERE name = $14`, wire.FormatTime(now), h.Program, h.Head.Epoch, h.Head.Seq, h.Head.Hash,
			h.Snapshot, h.Feed, h.Unsent, skew, h.DiskFree, string(faults), h.Trust, asNumber(h.Tells), who.name)
		if err != nil {
			return err
		}
		if offer, err = c.tellSoftware(ctx, tx, who.name, h.Software); err != nil || !h.Tells {
			return err
		}
		restored, err = mustTell(ctx, tx, who.name)
		return err
	})
	if err != nil {
		return wire.HelloAnswer{}, err
	}
	if frozen != nil {
		c.opt.Log.Warn("terminal frozen", "terminal", who.name, "why", frozen.Stop)
		return wire.HelloAnswer{}, frozen
	}
	a := wire.HelloAnswer{Protocol: wire.Protocol, Time: wire.FormatTime(now), Recover: recover, Restored: restored, Texts: wire.SnapshotTexts, Bench: bench, Update: offer}
	err = c.store.reader().QueryRowContext(ctx, `SELECT ack_epoch, ack_seq, ack_hash, (SELECT max(version) FROM snapshots),
		(SELECT coalesce(max(f.seq), 0) FROM (SELECT max(seq) AS seq FROM feed WHERE audience = '' UNION ALL SELECT max(seq) FROM feed WHERE audience = $1) f), region, (SELECT coalesce(max(number), 0) FROM sightings WHERE terminal = $1) FROM terminals WHERE name = $2`, who.name, who.name).
		Scan(&a.Acked.Epoch, &a.Acked.Seq, &a.Acked.Hash, &a.Snapshot, &a.Feed, &a.Region, &a.Sighted)
	if err != nil {
		return a, err
	}
	t, err := c.trust()
	if err != nil {
		return a, err
	}
	a.Trust = t.Mark()
	held := a.Acked
	if held.Seq == 0 { // nothing is held yet: of whichever journal it is
		held = wire.Position{Epoch: h.Head.Epoch, Hash: strings.Repeat("0", 64)}
	}
	if held.Epoch == h.Head.Epoch && held.Epoch > 0 {
		a.Ack, err = c.signAck(who.name, held, now)
	}
	return a, err
}

// signAck signs that central holds a terminal's journal up to a position, and how much
// the terminal may pay above it.
func (c *Central) signAck(terminal string, p wire.Position, now time.Time) (string, error) {
	ack := wire.Ack{Terminal: terminal, Position: p, Time: now, AllowanceClaims: c.opt.AllowanceClaims, AllowanceMinor: c.opt.AllowanceMinor}
	signed, err := c.keys.sign(ack.Text())
	if err != nil {
		return "", fmt.Errorf("sign the acknowledgement: %w", err)
	}
	return signed, nil
}

// plausible bounds what reports will show.
func plausible(h wire.Hello) error {
	switch {
	case len(h.Program) > 100:
		return fmt.Errorf("program has %d bytes, at most 100", len(h.Program))
	case len(h.Faults) > 50:
		return fmt.Errorf("%d faults, at most 50", len(h.Faults))
	case h.Head.Seq < 0 || h.Head.Epoch < 0 || h.Unsent < 0 || h.Snapshot < 0 || h.Feed < 0 || h.DiskFree < 0:
		return errors.New("a number is negative")
	case h.Trust != "" && !isHash(h.Trust):
		return errors.New("the mark of whom it believes has not 64 hexadecimal digits")
	case h.Head.Hash != "" && !isHash(h.Head.Hash):
		return errors.New("the head's hash has not 64 hexadecimal digits")
	}
	if len(h.Stopped) > 32 || strings.Trim(string(h.Stopped), "abcdefghijklmnopqrstuvwxyz-") != "" { // a later program may have more of them
		return errors.New("what stopped it has other characters than a to z and -")
	}
	if h.Count < 0 || len(h.Run) > 64 || strings.Trim(h.Run, "0123456789abcdef") != "" {
		return errors.New("the run's name has other characters than hexadecimal digits")
	}
	for _, f := range append([]string{h.Program}, h.Faults...) {
		if len(f) > 100 || strings.ContainsFunc(f, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%.20q: want at most 100 printable bytes", f)
		}
	}
	return nil
}
