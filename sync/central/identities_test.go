package central

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// registry is a terminal's register beside a world, and the key that reads it.
type registry struct {
	*people.Register
	secret people.RegisterSecretKey
	next   int
}

func newRegistry(t testing.TB, terminal string) *registry {
	t.Helper()
	secret, public, err := people.GenerateRegisterKey()
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{}
	key, err1 := people.ParseRegisterKey(public)
	r.secret, err = people.ParseRegisterSecretKey(secret)
	if err := errors.Join(err, err1); err != nil {
		t.Fatal(err)
	}
	r.Register, err = people.OpenRegister(t.Context(), people.RegisterOptions{Path: filepath.Join(t.TempDir(), "register.db"), Terminal: terminal, Key: key,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: noon} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// file records an identity for a payment and gives it as it is uploaded.
func (r *registry) file(t testing.TB) wire.SealedIdentity {
	t.Helper()
	r.next++
	claim := fmt.Sprintf("%032x", r.next)
	id, err := r.Record(t.Context(), "marie", people.Identity{Surname: "Le Goff", FirstNames: "Anne", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, Brest",
		Document: people.Passport, Number: "12AB34567", IssuedBy: "préfecture", ValidTo: "2031-01-31"}, []people.Payment{{Claim: claim, Amount: 2000_00, Currency: "EUR"}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Pending(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Record == id {
			return wire.SealedIdentity{Record: id.String(), Claims: s.Claims, Sealed: s.Bytes}
		}
	}
	t.Fatal("what was recorded is not pending")
	return wire.SealedIdentity{}
}

func (d *device) identities(t testing.TB, list ...wire.SealedIdentity) ([]string, *wire.Error) {
	t.Helper()
	var a wire.IdentityAnswer
	err := post(t, d.client, wire.PathIdentities, wire.IdentityUpload{Protocol: wire.Protocol, Records: list}, &a)
	return a.Stored, err
}

// auditOf are the audit's lines, and whether its chain holds.
func auditOf(t testing.TB, c *Central) ([]AuditLine, error) {
	var list []AuditLine
	_, err := c.Audit(t.Context(), func(a AuditLine) error { list = append(list, a); return nil })
	return list, err
}

// acts are the audit's lines as act and operator.
func acts(t testing.TB, c *Central) string {
	t.Helper()
	list, err := auditOf(t, c)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, a.Act+" "+a.Operator)
	}
	return strings.Join(out, ", ")
}

// lookers makes claire, denis and elise, who may look at identities.
func (w *world) lookers(t testing.TB) {
	t.Helper()
	for _, name := range []string{"claire", "denis", "elise"} {
		w.exec(t, "INSERT INTO users(name, role, password, added) VALUES($1, 'security', '', $2)", name, wire.FormatTime(w.clock.now()))
	}
}

// agreed is a request of claire's that denis agreed to.
func (w *world) agreed(t testing.TB, claim string) IdentityRequest {
	t.Helper()
	q, err := w.AskIdentity(t.Context(), claim, "claire", "judicial request")
	if err == nil {
		err = w.AgreeIdentity(t.Context(), q.Number, "denis")
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestIdentityIsAskedByOneAndAgreedToByAnother is the two-person rule, and that the audit
// has each act before anything is shown.
func TestIdentityIsAskedByOneAndAgreedToByAnother(t *testing.T) {
	onEachStore(t, testIdentityIsAskedByOneAndAgreedToByAnother)
}

func testIdentityIsAskedByOneAndAgreedToByAnother(t *testing.T, w *world) {
	ctx := t.Context()
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	s := r.file(t)
	if stored, err := d.identities(t, s); err != nil || len(stored) != 1 || stored[0] != s.Record {
		t.Fatalf("%v %v", stored, err)
	}
	w.lookers(t)
	w.exec(t, "INSERT INTO users(name, role, password, added) VALUES('olga', 'operator', '', '')")
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrRefused) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ask := func(claim, who, why string) (IdentityRequest, error) { return w.AskIdentity(ctx, claim, who, why) }
	open := func(number int64, who string) error {
		list, err := w.OpenIdentity(ctx, number, who, r.secret)
		if err != nil && list != nil {
			t.Fatalf("%d filings with %v", len(list), err)
		}
		return err
	}
	if _, err := ask(strings.Repeat("0", 32), "claire", "to see"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("of an unknown payment: %v", err)
	}
	for who, why := range map[string]string{"claire": "", "olga": "why", "nobody": "why"} {
		_, err := ask(s.Claims[0], who, why)
		refused(who+" asks", err)
	}
	q, err := ask(s.Claims[0], "claire", "judicial request")
	if err != nil || q.Records != 1 {
		t.Fatalf("%+v %v", q, err)
	}
	refused("opened with nobody's agreement", open(q.Number, "claire"))
	for _, who := range []string{"claire", "olga", "nobody"} {
		refused("agreed to by "+who, w.AgreeIdentity(ctx, q.Number, who))
	}
	if err := w.AgreeIdentity(ctx, q.Number, "denis"); err != nil {
		t.Fatal(err)
	}
	refused("agreed to twice", w.AgreeIdentity(ctx, q.Number, "elise"))
	refused("opened by the one who agreed", open(q.Number, "denis"))
	refused("opened by a third", open(q.Number, "elise"))
	if list, err := w.OpenIdentity(ctx, q.Number, "claire", newRegistry(t, "T-1").secret); !errors.Is(err, people.ErrSealed) || list != nil {
		t.Fatalf("with another key: %v", err)
	}
	w.clock.advance(requestLife)
	list, err := w.OpenIdentity(ctx, q.Number, "claire", r.secret)
	if err != nil || len(list) != 1 || list[0].Identity.Surname != "Le Goff" || list[0].Payments[0].Claim != s.Claims[0] {
		t.Fatalf("%d filings: %v", len(list), err)
	}
	refused("opened twice", open(q.Number, "claire"))
	if got, want := acts(t, w.Central), "ask claire, agree denis, open claire, not-opened claire, open claire"; got != want {
		t.Fatalf("the audit: %s", got)
	}

	late := w.agreed(t, s.Claims[0])
	unheard, err := ask(s.Claims[0], "claire", "again")
	if err != nil {
		t.Fatal(err)
	}
	w.clock.advance(requestLife + time.Second)
	refused("opened too late", open(late.Number, "claire"))
	refused("agreed to too late", w.AgreeIdentity(ctx, unheard.Number, "denis"))
	gone := w.agreed(t, s.Claims[0])
	if err := w.SuspendUser(ctx, "root", "claire"); err != nil {
		t.Fatal(err)
	}
	refused("opened by a user who was suspended meanwhile", open(gone.Number, "claire"))
	requests, err := w.IdentityRequests(ctx)
	if err != nil || len(requests) != 4 || requests[3].OpenedBy != "claire" || requests[3].AgreedBy != "denis" || requests[3].Agreed.IsZero() || !requests[0].Opened.IsZero() || requests[1].AgreedBy != "" || requests[0].Records != 1 {
		t.Fatalf("%+v %v", requests, err)
	}
}

// TestNothingIsShownThatTheAuditDoesNotHave: an identity whose audit line cannot be
// committed stays closed.
func TestNothingIsShownThatTheAuditDoesNotHave(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	s := r.file(t)
	if _, err := d.identities(t, s); err != nil {
		t.Fatal(err)
	}
	w.lookers(t)
	q := w.agreed(t, s.Claims[0])
	w.exec(t, "CREATE TRIGGER full BEFORE INSERT ON identity_audit BEGIN SELECT raise(ABORT, 'disk full'); END")
	if list, err := w.OpenIdentity(ctx, q.Number, "claire", r.secret); err == nil || list != nil {
		t.Fatalf("shown without a line: %v", err)
	}
	w.exec(t, "DROP TRIGGER full")
	if list, err := w.OpenIdentity(ctx, q.Number, "claire", r.secret); err != nil || len(list) != 1 {
		t.Fatalf("%v", err)
	}
}

func (w *world) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	err := w.store.change(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestIdentityIsStoredOnceWhateverIsRepeated: an answer that was lost, a record that comes
// again later, and one with other bytes.
func TestIdentityIsStoredOnceWhateverIsRepeated(t *testing.T) {
	onEachStore(t, testIdentityIsStoredOnceWhateverIsRepeated)
}

func testIdentityIsStoredOnceWhateverIsRepeated(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	one, two := r.file(t), r.file(t)
	for _, list := range [][]wire.SealedIdentity{{one}, {one, two}, {two}} {
		if stored, err := d.identities(t, list...); err != nil || len(stored) != len(list) {
			t.Fatalf("%v %v", stored, err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM identities"); n != 2 {
		t.Fatalf("%d rows", n)
	}
	if n := w.count(t, "SELECT count(*) FROM identities WHERE sealed = $1", one.Sealed); n != 1 {
		t.Fatal("it does not lie there as it was sealed")
	}
	other := one
	other.Sealed = bytes.Clone(one.Sealed)
	other.Sealed[7] ^= 1
	three := r.file(t)
	if stored, err := d.identities(t, three, other); err == nil || err.Kind != wire.KindBadRequest || len(stored) != 0 {
		t.Fatalf("%v %v", stored, err)
	}
	if n := w.count(t, "SELECT count(*) FROM identities WHERE sealed = $1", three.Sealed); n != 0 {
		t.Fatal("a part of an upload that was refused was stored")
	}
}

// TestUploadOfIdentitiesIsBounded: nothing else than a terminal's own records gets in.
func TestUploadOfIdentitiesIsBounded(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	s := newRegistry(t, "T-1").file(t)
	bad := s
	bad.Sealed = s.Sealed[1:]
	var many []wire.SealedIdentity
	for n := range wire.MaxIdentities + 1 {
		x := s
		x.Record = fmt.Sprintf("%032x", n)
		many = append(many, x)
	}
	for name, list := range map[string][]wire.SealedIdentity{"none": {}, "a byte less": {s, bad}, "too many": many} {
		if _, err := d.identities(t, list...); err == nil || err.Kind != wire.KindBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := append(append([]byte(`{"protocol":1,"records":[],"x":"`), bytes.Repeat([]byte("x"), wire.MaxIdentityUpload)...), `"}`...)
	if err := postRaw(t, d.client, wire.PathIdentities, huge, nil); err == nil || err.Kind != wire.KindTooLarge {
		t.Errorf("too large: %v", err)
	}
	if err := post(t, w.client(nil), wire.PathIdentities, wire.IdentityUpload{Protocol: wire.Protocol, Records: []wire.SealedIdentity{s}}, nil); err == nil || err.Kind != wire.KindForbidden {
		t.Errorf("without a certificate: %v", err)
	}
	if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.identities(t, s); err == nil || err.Kind != wire.KindForbidden {
		t.Errorf("suspended: %v", err)
	}
	if n := w.count(t, "SELECT count(*) FROM identities"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestTerminalsNamedPaymentIsHeldAgainstWhatIsSealed: a record put under another payment's
// id does not pass for that one's.
func TestTerminalsNamedPaymentIsHeldAgainstWhatIsSealed(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	s := r.file(t)
	s.Claims = []string{strings.Repeat("f", 32)}
	if _, err := d.identities(t, s); err != nil {
		t.Fatal(err)
	}
	w.lookers(t)
	q := w.agreed(t, s.Claims[0])
	if list, err := w.OpenIdentity(t.Context(), q.Number, "claire", r.secret); !errors.Is(err, people.ErrSealed) || list != nil {
		t.Fatalf("%v", err)
	}
}

// TestErasedIdentityIsGoneAndStaysSo: after its term the bytes are in no file of
// central's, nobody can ask for it, and a terminal that sends it again is satisfied.
func TestErasedIdentityIsGoneAndStaysSo(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	r := newRegistry(t, "T-1")
	old := r.file(t)
	if _, err := d.identities(t, old); err != nil {
		t.Fatal(err)
	}
	const term = 40 * 24 * time.Hour
	w.clock.advance(term)
	kept := r.file(t)
	if _, err := d.identities(t, kept); err != nil {
		t.Fatal(err)
	}
	if !w.onDisk(t, old.Sealed[:64]) {
		t.Fatal("it is not found even before: the test proves nothing")
	}
	if n, err := w.EraseIdentities(ctx, term); err != nil || n != 0 {
		t.Fatalf("on its last day: %d %v", n, err)
	}
	w.clock.advance(time.Second)
	if n, err := w.EraseIdentities(ctx, term); err != nil || n != 1 {
		t.Fatalf("%d %v", n, err)
	}
	for _, part := range [][]byte{old.Sealed[:64], old.Sealed[500:564], old.Sealed[len(old.Sealed)-64:]} {
		if w.onDisk(t, part) {
			t.Error("bytes of it are left")
		}
	}
	if !w.onDisk(t, kept.Sealed[:64]) {
		t.Error("the other one went, too")
	}
	w.lookers(t)
	if _, err := w.AskIdentity(ctx, old.Claims[0], "claire", "why"); !errors.Is(err, ErrNotFound) {
		t.Errorf("asked for: %v", err)
	}
	if stored, err := d.identities(t, old); err != nil || len(stored) != 1 {
		t.Errorf("sent again: %v %v", stored, err)
	}
	if w.onDisk(t, old.Sealed[:64]) {
		t.Error("sent again it is back")
	}
	if n, err := w.EraseIdentities(ctx, term); err != nil || n != 0 {
		t.Errorf("again: %d %v", n, err)
	}
	if got := acts(t, w.Central); got != "erase system" {
		t.Errorf("the audit: %s", got)
	}
}

// onDisk looks for bytes in every file of central's folder.
func (w *world) onDisk(t testing.TB, needle []byte) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(w.opt.Dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		found = found || bytes.Contains(text, needle)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestChangedAuditOfIdentitiesIsNoticed: a line cannot be changed, removed or put in.
func TestChangedAuditOfIdentitiesIsNoticed(t *testing.T) {
	for _, change := range []string{
		"UPDATE identity_audit SET line = replace(line, 'claire', 'xavier') WHERE seq = 1",
		"DELETE FROM identity_audit WHERE seq = 1",
		"UPDATE identity_audit SET seq = 9 WHERE seq = 2",
		"UPDATE identity_audit SET hash = zeroblob(32) WHERE seq = 2",
	} {
		w := newWorld(t)
		d := w.enrolled(t, "T-1")
		s := newRegistry(t, "T-1").file(t)
		if _, err := d.identities(t, s); err != nil {
			t.Fatal(err)
		}
		w.lookers(t)
		for range 3 {
			if _, err := w.AskIdentity(t.Context(), s.Claims[0], "claire", "why"); err != nil {
				t.Fatal(err)
			}
		}
		w.exec(t, change)
		if _, err := auditOf(t, w.Central); !errors.Is(err, ErrAudit) {
			t.Errorf("not noticed: %s", change)
		}
	}
}

// TestAuditLineOfAnIdentityWrittenAnewIsNoticed: with its own hash made anew; the next
// line carries the old one's.
func TestAuditLineOfAnIdentityWrittenAnewIsNoticed(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	s := newRegistry(t, "T-1").file(t)
	if _, err := d.identities(t, s); err != nil {
		t.Fatal(err)
	}
	w.lookers(t)
	for range 2 {
		if _, err := w.AskIdentity(t.Context(), s.Claims[0], "claire", "why"); err != nil {
			t.Fatal(err)
		}
	}
	var line string
	if err := w.Reader().QueryRow("SELECT line FROM identity_audit WHERE seq = 1").Scan(&line); err != nil {
		t.Fatal(err)
	}
	line = strings.Replace(line, "claire", "xavier", 1)
	hash := sha256.Sum256([]byte(line))
	w.exec(t, "UPDATE identity_audit SET line = $1, hash = $2 WHERE seq = 1", line, hash[:])
	if _, err := auditOf(t, w.Central); !errors.Is(err, ErrAudit) {
		t.Error("not noticed")
	}
}

// TestTerminalSuspendedMeanwhileStoresNoIdentity: between its certificate and the commit.
func TestTerminalSuspendedMeanwhileStoresNoIdentity(t *testing.T) {
	onEachStore(t, testTerminalSuspendedMeanwhileStoresNoIdentity)
}

func testTerminalSuspendedMeanwhileStoresNoIdentity(t *testing.T, w *world) {
	w.enrolled(t, "T-1")
	s := newRegistry(t, "T-1").file(t)
	if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
		t.Fatal(err)
	}
	_, err := w.storeIdentities(t.Context(), caller{name: "T-1"}, wire.IdentityUpload{Protocol: wire.Protocol, Records: []wire.SealedIdentity{s}})
	if refused, is := errors.AsType[*wire.Error](err); !is || refused.Kind != wire.KindForbidden || w.count(t, "SELECT count(*) FROM identities") != 0 {
		t.Fatalf("%v", err)
	}
}

// TestPaymentIsNamedByItsSlip: terminal and ledger number give the claim.
func TestPaymentIsNamedByItsSlip(t *testing.T) { onEachStore(t, testPaymentIsNamedByItsSlip) }

func testPaymentIsNamedByItsSlip(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[0])
	d.record(t, ledger.KindTraining, ledger.TrainingBody{On: true, Operator: "marie"})
	d.send(t, 1, 2)
	claim, err := w.ClaimOf(t.Context(), "T-1", validate.EntryNumber{Epoch: 1, Seq: 1})
	if err != nil || w.count(t, "SELECT count(*) FROM claims WHERE claim = $1", claim) != 1 {
		t.Fatalf("%q %v", claim, err)
	}
	if _, err := w.ClaimOf(t.Context(), "T-1", validate.EntryNumber{Epoch: 1, Seq: 2}); !errors.Is(err, ErrRefused) {
		t.Errorf("no payment: %v", err)
	}
	if _, err := w.ClaimOf(t.Context(), "T-1", validate.EntryNumber{Epoch: 1, Seq: 3}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no entry: %v", err)
	}
}

// TestForeignRecordDoesNotHideAnIdentity: any terminal can name any payment. One that names
// another's, with bytes that do not open, must not make the true record unreadable.
func TestForeignRecordDoesNotHideAnIdentity(t *testing.T) {
	w := newWorld(t)
	honest, rogue := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	r, other := newRegistry(t, "T-1"), newRegistry(t, "T-2")
	s, foreign := r.file(t), other.file(t)
	foreign.Claims = s.Claims
	if _, err := rogue.identities(t, foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := honest.identities(t, s); err != nil {
		t.Fatal(err)
	}
	w.lookers(t)
	q := w.agreed(t, s.Claims[0])
	if q.Records != 2 {
		t.Fatalf("%+v", q)
	}
	list, err := w.OpenIdentity(t.Context(), q.Number, "claire", r.secret)
	if len(list) != 1 || list[0].Terminal != "T-1" {
		t.Fatalf("%d filings: %v", len(list), err)
	}
	if !errors.Is(err, people.ErrSealed) || !strings.Contains(err.Error(), "T-2") {
		t.Errorf("of the foreign one it is said: %v", err)
	}
	acts, err := auditOf(t, w.Central)
	if last := acts[len(acts)-1]; err != nil || last.Act != "not-opened" || !strings.Contains(last.About, "T-2") {
		t.Errorf("%+v, %v", last, err)
	}
	if _, err := w.OpenIdentity(t.Context(), q.Number, "claire", r.secret); !errors.Is(err, ErrRefused) {
		t.Errorf("opened twice: %v", err)
	}
}
