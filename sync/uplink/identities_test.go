package uplink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
	"grattoir/validate/money"
)

// identities stores what comes, once, as central does.
func (c *fake) identities(w http.ResponseWriter, body []byte) {
	var u wire.IdentityUpload
	if err := json.Unmarshal(body, &u); err != nil || len(u.Records) > wire.MaxIdentities {
		refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: fmt.Sprint(err)})
		return
	}
	a := wire.IdentityAnswer{Protocol: wire.Protocol}
	for _, s := range u.Records {
		if err := s.Check(); err != nil {
			refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: err.Error()})
			return
		}
		a.Stored = append(a.Stored, s.Record)
		known := false
		for _, k := range c.sealed {
			known = known || k.Record == s.Record
		}
		if !known {
			c.sealed = append(c.sealed, s)
		}
	}
	_ = json.NewEncoder(w).Encode(a)
}

// registered gives a link a register of identities, and the key that reads it.
func registered(t *testing.T, l *link) (*people.Register, people.RegisterSecretKey) {
	t.Helper()
	secret, public, err := people.GenerateRegisterKey()
	if err != nil {
		t.Fatal(err)
	}
	r, err := people.OpenRegister(t.Context(), people.RegisterOptions{Path: filepath.Join(t.TempDir(), "register.db"), Terminal: "T-1", Key: must(people.ParseRegisterKey(public)),
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	l.opt.Register = r
	return r, must(people.ParseRegisterSecretKey(secret))
}

// identify records a winner for a payment of its own.
func identify(t *testing.T, r *people.Register, n int) {
	t.Helper()
	_, err := r.Record(context.Background(), "marie", people.Identity{Surname: "Kerbrat", FirstNames: "Yann", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, Brest",
		Document: people.Passport, Number: "12AB34567", IssuedBy: "préfecture"}, []people.Payment{{Claim: fmt.Sprintf("%032x", n), Amount: money.Amount(2000_00), Currency: "EUR"}})
	if err != nil {
		t.Fatal(err)
	}
}

func pendingOf(t *testing.T, r *people.Register) int {
	t.Helper()
	_, pending, err := r.Count(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// TestIdentitiesArriveOnceAndAreAcknowledged: what waited, and what comes while nothing
// waits; answers that are lost make no second one.
func TestIdentitiesArriveOnceAndAreAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		r, key := registered(t, l)
		for n := range 40 {
			identify(t, r, n)
		}
		lost := 0
		l.spoil = func(_ http.ResponseWriter, q *http.Request, body []byte) bool {
			if q.URL.Path != wire.PathIdentities || lost == 3 {
				return false
			}
			lost++
			l.mu.Lock()
			defer l.mu.Unlock()
			l.identities(&swallow{}, body) // central commits, and the line is cut
			panic(http.ErrAbortHandler)
		}
		l.start()
		pass(time.Minute)
		identify(t, r, 40)
		pass(time.Second)
		if got := len(l.sealed); got != 41 || pendingOf(t, r) != 0 || lost != 3 {
			t.Fatalf("%d of 41 at central, %d pending here, %d answers lost: %+v", got, pendingOf(t, r), lost, l.fault(LaneIdentities))
		}
		for _, s := range l.sealed {
			var id people.RecordID
			if err := id.UnmarshalText([]byte(s.Record)); err != nil {
				t.Fatal(err)
			}
			f, err := key.Open(people.Sealed{Record: id, Terminal: "T-1", Bytes: s.Sealed})
			if err != nil || len(s.Claims) != 1 || f.Payments[0].Claim != s.Claims[0] {
				t.Fatalf("%v: %v", s.Claims, err)
			}
		}
		if n := l.asked("POST " + wire.PathIdentities); n != 3+3+1 {
			t.Errorf("%d uploads", n)
		}
	})
}

// TestIdentityThatCentralDoesNotNameStays: an answer acknowledges what it names, and
// only what was sent.
func TestIdentityThatCentralDoesNotNameStays(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		r, _ := registered(t, l)
		for n := range 3 {
			identify(t, r, n)
		}
		stored := []string{strings.Repeat("0", 32)}
		l.spoil = only(wire.PathIdentities, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(wire.IdentityAnswer{Protocol: wire.Protocol, Stored: stored})
		})
		l.start()
		pass(time.Minute)
		if pendingOf(t, r) != 3 || l.fault(LaneIdentities).Code != CodeAnswer {
			t.Fatalf("%d pending, %+v", pendingOf(t, r), l.fault(LaneIdentities))
		}
		l.update(func() { l.spoil = nil })
		pass(2 * time.Minute)
		if pendingOf(t, r) != 0 || l.fault(LaneIdentities).Code != "" {
			t.Fatalf("%d pending, %+v", pendingOf(t, r), l.fault(LaneIdentities))
		}
	})
}

// TestIdentitiesThatFailHoldUpNothingElse: central refuses them, or cannot be reached.
// The register's audit does not grow with the tries, the log shows nobody.
func TestIdentitiesThatFailHoldUpNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		r, _ := registered(t, l)
		var log bytes.Buffer
		l.opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		identify(t, r, 1)
		l.spoil = only(wire.PathIdentities, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusInternalServerError, &wire.Error{Kind: wire.KindInternal, Text: "broken"})
		})
		l.start()
		l.pay(3)
		pass(time.Hour)
		l.equal()
		if f := l.fault(LaneIdentities); f.Code != CodeBusy || f.Tries < 10 || pendingOf(t, r) != 1 {
			t.Fatalf("%+v, %d pending", f, pendingOf(t, r))
		}
		lines := 0
		if err := r.Audit(context.Background(), func(people.AuditLine) error { lines++; return nil }); err != nil || lines != 3 { // key, record, export
			t.Errorf("%d lines of audit: %v", lines, err)
		}
		l.stop()
		for _, secret := range []string{"Kerbrat", "12AB34567", "Siam", fmt.Sprintf("%032x", 1)} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
	})
}

// TestIdentityIsReadAtCentralByTwoPersons is the way from the register to the eyes of
// whom it is for, with the real central.
func TestIdentityIsReadAtCentralByTwoPersons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := joinReal(t)
		r, key := registered(t, l.link)
		identify(t, r, 7)
		l.start()
		pass(time.Minute)
		if pendingOf(t, r) != 0 {
			t.Fatalf("%+v", l.uplink.Status().Faults)
		}
		password, err := central.NewPassword("correct horse battery staple")
		if err == nil {
			err = errors.Join(l.real.AddUser(t.Context(), "root", "claire", central.RoleSecurity, password), l.real.AddUser(t.Context(), "root", "denis", central.RoleSecurity, password))
		}
		if err != nil {
			t.Fatal(err)
		}
		q, err := l.real.AskIdentity(t.Context(), fmt.Sprintf("%032x", 7), "claire", "judicial request")
		if err == nil {
			err = l.real.AgreeIdentity(t.Context(), q.Number, "denis")
		}
		if err != nil {
			t.Fatal(err)
		}
		list, err := l.real.OpenIdentity(t.Context(), q.Number, "claire", key)
		if err != nil || len(list) != 1 || list[0].Identity.Surname != "Kerbrat" {
			t.Fatalf("%d filings: %v", len(list), err)
		}
	})
}
