package people

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/validate/money"
)

const (
	span = 24 * time.Hour
	term = 5 * 366 * 24 * time.Hour
)

func identity() Identity {
	return Identity{Surname: "Lefèvre-Œuf", FirstNames: "Hélène Marie Anne", Born: "1970-05-12", BirthPlace: "Quimper", Address: "3 rue du Port\n29000 Quimper",
		Document: IdentityCard, Number: "12AB-34567 O", IssuedBy: "Préfecture du Finistère", ValidTo: "2031-01-31"}
}

func payment(n int, amount money.Amount) []Payment {
	return []Payment{{Claim: fmt.Sprintf("%032x", n), Amount: amount, Stake: 500, Currency: "EUR"}}
}

func registerOptions(t testing.TB, dir string, w *world) (RegisterOptions, RegisterSecretKey) {
	t.Helper()
	secret, public, err := GenerateRegisterKey()
	must(t, err)
	key, err := ParseRegisterKey(public)
	must(t, err)
	private, err := ParseRegisterSecretKey(secret)
	must(t, err)
	return RegisterOptions{Path: filepath.Join(dir, "register.db"), Terminal: "T-1", Moment: w.moment, Key: key}, private
}

func openRegister(t testing.TB, opt RegisterOptions) *Register {
	t.Helper()
	r, err := OpenRegister(context.Background(), opt)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func recordOf(t testing.TB, r *Register, i Identity, payments []Payment) RecordID {
	t.Helper()
	id, err := r.Record(context.Background(), "marie", i, payments)
	must(t, err)
	return id
}

func linked(t testing.TB, r *Register, i Identity) Linked {
	t.Helper()
	p, err := r.Person(i)
	must(t, err)
	l, err := r.Linked(context.Background(), "marie", p, "EUR", span)
	must(t, err)
	return l
}

func TestOnlyCentralReadsAnIdentity(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	opt, private := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	id := recordOf(t, r, identity(), payment(1, 2000_00))
	list, err := r.Pending(ctx, 10)
	if err != nil || len(list) != 1 || list[0].Record != id || list[0].Terminal != "T-1" {
		t.Fatalf("%+v %v", list, err)
	}
	f, err := private.Open(list[0])
	must(t, err)
	if f.Identity != identity() || f.Operator != "marie" || f.Time != "2026-11-30T09:00:00.000Z" || !slices.Equal(f.Payments, payment(1, 2000_00)) {
		t.Error("another filing came out")
	}

	_, other := registerOptions(t, t.TempDir(), w)
	_, err = other.Open(list[0])
	want(t, err, ErrSealed)
	for _, move := range []func(*Sealed){func(s *Sealed) { s.Terminal = "T-2" }, func(s *Sealed) { s.Record[0] ^= 1 }} {
		moved := list[0]
		move(&moved)
		_, err = private.Open(moved)
		if want(t, err, ErrSealed); strings.Contains(err.Error(), "inside") {
			t.Error("it was opened before it was found to be another's")
		}
	}
	for at := range list[0].Bytes {
		if at%37 != 0 {
			continue
		}
		changed := list[0]
		changed.Bytes = bytes.Clone(changed.Bytes)
		changed.Bytes[at] ^= 1
		_, err = private.Open(changed)
		want(t, err, ErrSealed)
	}
	_, err = private.Open(Sealed{Bytes: make([]byte, maxSealed+1)})
	want(t, err, ErrSealed)

	// What lies on the card: none of it in any spelling.
	for _, text := range []string{"Lefèvre", "LEFEVRE", "Hélène", "HELENE", "Quimper", "rue du Port", "1970-05-12", "12AB", "345670", "Finist"} {
		if inFiles(t, opt.Path, []byte(text)) {
			t.Errorf("the terminal's files hold %q", text)
		}
	}
	long := identity()
	long.FirstNames = "Hélène Marie Anne Sophie Charlotte"
	recordOf(t, r, long, payment(2, 2000_00))
	list, err = r.Pending(ctx, 10)
	if err != nil || len(list) != 2 || len(list[0].Bytes) != len(list[1].Bytes) {
		t.Error("the length tells a name from a longer one")
	}
}

func TestNoRegisterKeyNoRecord(t *testing.T) {
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	opt.Key = RegisterKey{}
	r := openRegister(t, opt)
	_, err := r.Record(context.Background(), "marie", identity(), payment(1, 2000_00))
	want(t, err, ErrNoRegisterKey)
	if all, _, err := r.Count(context.Background()); err != nil || all != 0 {
		t.Errorf("%d records, %v", all, err)
	}
	if m := Explain(err); m.Code != "I1" {
		t.Error(m)
	}
}

func TestIncompleteIdentityIsNamedByFieldAlone(t *testing.T) {
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	for field, spoil := range map[string]func(*Identity){
		"surname":          func(i *Identity) { i.Surname = "-' ." },
		"first names":      func(i *Identity) { i.FirstNames = "" },
		"date of birth":    func(i *Identity) { i.Born = "1970-02-30" },
		"birth place":      func(i *Identity) { i.BirthPlace = "\x00Quimper" },
		"address":          func(i *Identity) { i.Address = strings.Repeat("é", maxField) },
		"kind of document": func(i *Identity) { i.Document = "library-card" },
		"document number":  func(i *Identity) { i.Number = "\xff1" },
		"issued by":        func(i *Identity) { i.IssuedBy = " " },
		"end of validity":  func(i *Identity) { i.ValidTo = "31/01/2031" },
	} {
		i := identity()
		spoil(&i)
		_, err := r.Record(context.Background(), "marie", i, payment(1, 1))
		want(t, err, ErrIdentity)
		if got := err.Error(); !strings.HasPrefix(got, ErrIdentity.Error()+": "+field) || strings.Contains(got, ",") && field != "kind of document" {
			t.Errorf("%s: %s", field, got)
		}
		_, err = r.Person(i)
		want(t, err, ErrIdentity)
	}
	for _, born := range []string{"1970", "1970-05", "1970-05-12"} {
		i := identity()
		i.Born, i.ValidTo = born, ""
		must(t, i.Validate())
	}
	for name, list := range map[string][]Payment{"none": nil, "twice": append(payment(1, 5), payment(1, 5)...), "no amount": payment(1, 0), "no id": {{Claim: "x", Amount: 1, Currency: "EUR"}},
		"two currencies": append(payment(1, 5), Payment{Claim: fmt.Sprintf("%032x", 2), Amount: 1, Currency: "XPF"}), "many": slices.Repeat(payment(1, 1), 101)} {
		if _, err := r.Record(context.Background(), "marie", identity(), list); err == nil {
			t.Errorf("payments: %s", name)
		}
	}
}

func TestIdentityNeverShows(t *testing.T) {
	i := identity()
	f := Filing{Identity: i}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", i, i, i, i, i), fmt.Sprintf("%+v %v", &i, []Identity{i}), fmt.Sprintf("%v %+v %#v", f, f, f), fmt.Errorf("%v", f).Error()} {
		if strings.Contains(text, "Quimper") || strings.Contains(text, "1970") {
			t.Error(text)
		}
	}
}

func TestPaymentsOfOnePersonAreLinked(t *testing.T) {
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	recordOf(t, r, identity(), payment(1, 900_00))

	same := map[string]func(*Identity){
		"number typed otherwise": func(i *Identity) { i.Number, i.Surname = " 12ab 345670", "Other" },
		"letters for digits":     func(i *Identity) { i.Number, i.Surname = "I2AB34567O", "Other" },
		"another document":       func(i *Identity) { i.Document, i.Number = Passport, "99XY00001" },
		"no accents":             func(i *Identity) { i.Surname, i.FirstNames, i.Number = "LEFEVRE OEUF", "Helene", "99XY00001" },
		"decomposed accents":     func(i *Identity) { i.Surname, i.Number = "Lefe\u0300vre-\u0152uf", "99XY00001" },
		"first name alone":       func(i *Identity) { i.FirstNames, i.Number = "HÉLÈNE, Sophie", "99XY00001" },
	}
	for how, change := range same {
		i := identity()
		change(&i)
		if l := linked(t, r, i); l.Sum != 900_00 || len(l.Claims) != 1 {
			t.Errorf("%s: %+v", how, l)
		}
	}
	for how, change := range map[string]func(*Identity){
		"a sister":      func(i *Identity) { i.FirstNames, i.Number = "Sophie", "99XY00001" },
		"another birth": func(i *Identity) { i.Born, i.Number = "1970-05-13", "99XY00001" },
		"another name":  func(i *Identity) { i.Surname, i.Number = "Martin", "99XY00001" },
	} {
		i := identity()
		change(&i)
		if l := linked(t, r, i); l.Sum != 0 {
			t.Errorf("%s: %+v", how, l)
		}
	}
	recordOf(t, r, identity(), append(payment(2, 700_00), payment(1, 900_00)...)) // claim 1 was asked for again
	if l := linked(t, r, identity()); l.Sum != 1600_00 || !slices.Equal(l.Claims, []string{payment(1, 1)[0].Claim, payment(2, 1)[0].Claim}) {
		t.Errorf("%+v: a claim counts once", l)
	}
	p, err := r.Person(identity())
	must(t, err)
	if l, err := r.Linked(context.Background(), "marie", p, "XPF", span); err != nil || l.Sum != 0 {
		t.Errorf("%+v %v", l, err)
	}
}

// TestLinkingBelievesNoDeviceClock: only what is certainly older than the span leaves the sum.
func TestLinkingBelievesNoDeviceClock(t *testing.T) {
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	recordOf(t, r, identity(), payment(1, 900_00))
	counts := func(what string, yes bool) {
		t.Helper()
		if got := linked(t, r, identity()).Sum != 0; got != yes {
			t.Errorf("%s: counted is %v, want %v", what, got, yes)
		}
	}
	for _, years := range []int{-30, 60} {
		w.device = w.device.AddDate(years, 0, 0)
		counts("the device's clock jumped", true)
	}
	w.pass(span)
	counts("at the span's end", true)
	w.pass(1)
	counts("after the span", false)
	w.reboot()
	counts("after a restart, with no trusted time", true)
	w.pass(span)
	counts("a span after the restart", false)

	w.trusted = time.Date(2026, 12, 3, 8, 0, 0, 0, time.UTC)
	r = openRegister(t, func() RegisterOptions { o, _ := registerOptions(t, t.TempDir(), w); return o }())
	recordOf(t, r, identity(), payment(2, 800_00))
	w.reboot()
	w.trusted = w.trusted.Add(span - time.Hour)
	counts("23 trusted hours later", true)
	w.trusted = w.trusted.Add(2 * time.Hour)
	counts("25 trusted hours later", false)
	w.trusted = time.Time{}
	counts("with no trusted time now", true)
}

func TestEraseWaitsForCentralAndTheSpan(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	w.trusted = time.Date(2026, 12, 3, 8, 0, 0, 0, time.UTC)
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	sent := recordOf(t, r, identity(), payment(1, 900_00))
	recordOf(t, r, identity(), payment(2, 900_00))
	erase := func(what string, n int) {
		t.Helper()
		if got, err := r.Erase(ctx, Keep{Span: span, Term: term}); err != nil || got != n {
			t.Errorf("%s: %d erased, %v, want %d", what, got, err, n)
		}
	}
	must(t, r.Acknowledge(ctx, []RecordID{sent, {0xff}}))
	erase("acknowledged, still linking", 0)
	w.pass(span + 1)
	erase("acknowledged, span over", 1)
	erase("again", 0)
	if all, pending, err := r.Count(ctx); err != nil || all != 1 || pending != 1 {
		t.Errorf("%d %d %v", all, pending, err)
	}
	w.device = w.device.AddDate(100, 0, 0)
	erase("the device's clock is a century ahead", 0)
	w.pass(term - span)
	erase("not acknowledged, term over", 1)
	if _, err := r.Erase(ctx, Keep{Span: term, Term: span}); err == nil {
		t.Error("a term shorter than the span")
	}
}

// TestUnsentRecordOutlivesItsTermByTheGrace: it is the only one there is, and both its
// waiting and its end have names.
func TestUnsentRecordOutlivesItsTermByTheGrace(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	const day = 24 * time.Hour
	keep := Keep{Span: day, Term: 100 * day, Grace: 30 * day}
	unsent := recordOf(t, r, identity(), payment(1, 2000_00))
	must(t, r.Overdue(ctx, keep, 3*day))
	step := func(d time.Duration, erased int, is error) {
		t.Helper()
		w.pass(d)
		if n, err := r.Erase(ctx, keep); err != nil || n != erased {
			t.Fatalf("%d records erased, want %d: %v", n, erased, err)
		}
		if err := r.Overdue(ctx, keep, 3*day); !errors.Is(err, is) {
			t.Fatalf("%v, want %v", err, is)
		}
	}
	step(2*day, 0, nil)
	step(2*day, 0, ErrUnsent)
	step(95*day, 0, ErrUnsent)
	step(2*day, 0, ErrUnsentTerm)
	step(29*day, 0, ErrUnsentTerm)
	step(day, 1, nil)
	lines := audit(t, r.Audit)
	if got := lines[len(lines)-1]; got != "system erase-unsent "+unsent.String() {
		t.Fatalf("the audit ends with %q", got)
	}
	if _, err := r.Erase(ctx, Keep{Span: day, Term: day, Grace: -1}); err == nil {
		t.Error("a grace below nothing")
	}
}

// TestTerminalWithoutANetworkFillsNoAudit: handing the same records out again and again
// is one line, and what is new is another.
func TestTerminalWithoutANetworkFillsNoAudit(t *testing.T) {
	ctx := context.Background()
	opt, _ := registerOptions(t, t.TempDir(), newWorld())
	r := openRegister(t, opt)
	changed := r.Changed()
	first := recordOf(t, r, identity(), payment(1, 2000_00))
	select {
	case <-changed:
	default:
		t.Fatal("nobody is told of a record")
	}
	for range 50 {
		list, err := r.Pending(ctx, 10)
		if err != nil || len(list) != 1 || len(list[0].Claims) != 1 || list[0].Claims[0] != payment(1, 1)[0].Claim {
			t.Fatalf("%+v %v", list, err)
		}
	}
	recordOf(t, r, identity(), payment(2, 2000_00))
	if _, err := r.Pending(ctx, 10); err != nil {
		t.Fatal(err)
	}
	must(t, r.Acknowledge(ctx, []RecordID{first}))
	exports := 0
	for _, l := range audit(t, r.Audit) {
		if strings.HasPrefix(l, "system export") {
			exports++
		}
	}
	if exports != 2 {
		t.Fatalf("%d lines tell of it, want 2", exports)
	}
}

// TestErasedBytesAreGone: from the file and from its log, also when the power went
// between the removal and the wiping.
func TestErasedBytesAreGone(t *testing.T) {
	ctx := context.Background()
	for _, cut := range []bool{false, true} {
		w := newWorld()
		opt, _ := registerOptions(t, t.TempDir(), w)
		r := openRegister(t, opt)
		gone := map[string][]byte{}
		for n := range 40 { // enough for pages to fill, split and be freed
			i := identity()
			i.Number = fmt.Sprint("GONE", n)
			recordOf(t, r, i, payment(n, 1000))
			p := personOf(r.link, i)
			gone[fmt.Sprint("document ", n)], gone[fmt.Sprint("name ", n)] = bytes.Clone(p.document[:]), bytes.Clone(p.name[:])
		}
		list, err := r.Pending(ctx, 100)
		must(t, err)
		ids := []RecordID{}
		for n, s := range list {
			ids = append(ids, s.Record)
			gone[fmt.Sprint("sealed ", n)], gone[fmt.Sprint("sealed end ", n)] = s.Bytes[100:132], s.Bytes[len(s.Bytes)-32:]
		}
		for what, needle := range gone {
			if !inFiles(t, opt.Path, needle) {
				t.Fatalf("%s is not found even before: the test proves nothing", what)
			}
		}
		must(t, r.Acknowledge(ctx, ids))
		w.pass(span + 1)
		kept := recordOf(t, r, Identity{"Kept", "K", "1980", "K", "K", Passport, "K1", "K", ""}, payment(99, 5))
		if cut {
			due, err := r.due(ctx, Keep{Span: span, Term: term})
			must(t, err)
			_, err = r.file.DB.Exec("UPDATE meta SET dirty = 1; DELETE FROM payments WHERE record <= 40; DELETE FROM records WHERE number <= 40")
			if must(t, err); len(due) != 40 {
				t.Fatal(len(due))
			}
			copyFiles(t, filepath.Dir(opt.Path), filepath.Join(filepath.Dir(opt.Path), "cut"))
			opt.Path = filepath.Join(filepath.Dir(opt.Path), "cut", "register.db")
			if !inFiles(t, opt.Path, list[0].Bytes[100:132]) {
				t.Fatal("the cut left nothing to wipe: the test proves nothing")
			}
			r = openRegister(t, opt)
		} else if n, err := r.Erase(ctx, Keep{Span: span, Term: term}); err != nil || n != 40 {
			t.Fatalf("%d erased, %v", n, err)
		}
		for what, needle := range gone {
			if inFiles(t, opt.Path, needle) {
				t.Errorf("cut %v: %s can still be read", cut, what)
			}
		}
		var secure, free int
		must(t, r.file.DB.QueryRow("SELECT secure_delete, freelist_count FROM pragma_secure_delete, pragma_freelist_count").Scan(&secure, &free))
		if secure != 1 || free != 0 {
			t.Errorf("cut %v: secure_delete is %d, %d pages lie free", cut, secure, free)
		}
		if list, err := r.Pending(ctx, 100); err != nil || len(list) != 1 || list[0].Record != kept {
			t.Errorf("%d records are left, %v", len(list), err)
		}
	}
}

func TestEveryAccessIsAudited(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	id := recordOf(t, r, identity(), payment(1, 900_00))
	linked(t, r, identity())
	_, err := r.Pending(ctx, 10)
	must(t, err)
	must(t, r.Acknowledge(ctx, []RecordID{id}))
	must(t, r.Acknowledge(ctx, []RecordID{id}))
	if list, err := r.Pending(ctx, 10); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	w.pass(span + 1)
	_, err = r.Erase(ctx, Keep{Span: span, Term: term})
	must(t, err)
	if got, want := audit(t, r.Audit), []string{"system key first", "marie record " + id.String(), "marie look 1 claims", "system export 1 records from " + id.String(),
		"system acknowledged " + id.String(), "system erase " + id.String()}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	must(t, r.Verify(ctx))
}

func TestLostLinkKeyIsNoticed(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	opt, _ := registerOptions(t, t.TempDir(), w)
	r := openRegister(t, opt)
	recordOf(t, r, identity(), payment(1, 900_00))
	must(t, r.Close())
	path := opt.Path + ".key"
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	key, err := os.ReadFile(path)
	must(t, err)
	tryOpen := func(is error) {
		t.Helper()
		_, err := OpenRegister(ctx, opt)
		want(t, err, is)
		if strings.Contains(err.Error(), strings.TrimSpace(string(key))[len(linkKeyPrefix):]) {
			t.Error("the error shows the key")
		}
	}
	must(t, os.Remove(path))
	tryOpen(ErrLinkKey)
	for _, text := range []string{"", "hello", string(key[:len(key)-5]), linkKeyPrefix + base64.StdEncoding.EncodeToString(make([]byte, 32))} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		tryOpen(ErrLinkKey)
	}
	must(t, os.WriteFile(path, key, 0o600))
	must(t, os.Chmod(path, 0o640))
	tryOpen(ledger.ErrMode)
	must(t, os.Chmod(path, 0o600))
	r = openRegister(t, opt)
	if l := linked(t, r, identity()); l.Sum != 900_00 {
		t.Error(l)
	}
	must(t, r.Close())

	must(t, os.WriteFile(path, []byte("hello"), 0o600))
	opt.NewLinkKey = true
	r = openRegister(t, opt)
	if l := linked(t, r, identity()); l.Sum != 0 {
		t.Error(l)
	}
	recordOf(t, r, identity(), payment(2, 100))
	must(t, r.Close())
	r = openRegister(t, opt) // the flag left on makes no third key
	if l := linked(t, r, identity()); l.Sum != 100 {
		t.Error(l)
	}
	if !slices.Contains(audit(t, r.Audit), "system key another") {
		t.Error("the new key is not in the audit")
	}
}

func TestRegisterKeysAreNotMistaken(t *testing.T) {
	secret, public, err := GenerateRegisterKey()
	must(t, err)
	claimSecret, claimPublic, err := ledger.GenerateClaimKey()
	must(t, err)
	for _, text := range []string{"", secret, claimPublic, claimSecret, public[:len(public)-3], registerPublicPrefix + "AAAA"} {
		if _, err := ParseRegisterKey(text); err == nil || text != "" && strings.Contains(err.Error(), text[len(text)-20:]) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for _, text := range []string{"", public, claimSecret, secret[:len(secret)-3], registerPrivatePrefix + "AAAA"} {
		if _, err := ParseRegisterSecretKey(text); err == nil || text != "" && strings.Contains(err.Error(), text[len(text)-20:]) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

var makeTestdata = flag.Bool("make-testdata", false, "write testdata of the current version, once before its release")

// makeFiles writes what TestTodaysProgramOpensEveryVersion expects of a version.
func makeFiles(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	for range 3 {
		_, err := s.SignOn(ctx, as(t, "07", wrongPIN), 0, "EUR")
		want(t, err, ErrWrong)
	}
	w.pass(time.Minute)
	_, err := s.file.DB.Exec("DELETE FROM tries WHERE subject = 'terminal'") // or marie's PIN would wait, and forget what 07 did
	must(t, err)
	_, err = s.SignOn(ctx, as(t, "marie", clerkPIN), 150_00, "EUR")
	must(t, err)
	must(t, errors.Join(s.file.scrub(ctx), s.Close()))
	clone(t, opt.Path, fmt.Sprintf("testdata/people-v%d.db", len(staffKind().steps)))

	ropt, _ := registerOptions(t, t.TempDir(), w)
	secret, public, err := GenerateRegisterKey()
	must(t, err)
	ropt.Key, err = ParseRegisterKey(public)
	must(t, err)
	r := openRegister(t, ropt)
	recordOf(t, r, identity(), payment(1, 2000_00))
	must(t, errors.Join(r.file.scrub(ctx), r.Close()))
	to := fmt.Sprintf("testdata/register-v%d", len(registerKind().steps))
	clone(t, ropt.Path, to+".db")
	clone(t, ropt.Path+".key", to+".db.key")
	must(t, os.WriteFile(to+".secret", []byte(secret+"\n"), 0o600))
}

// TestTodaysProgramOpensEveryVersion: testdata holds files of every released version.
func TestTodaysProgramOpensEveryVersion(t *testing.T) {
	ctx := context.Background()
	if *makeTestdata {
		makeFiles(t)
	}
	for v := 1; v <= len(staffKind().steps); v++ {
		w := newWorld()
		opt := staffOptions(t.TempDir(), w)
		clone(t, fmt.Sprintf("testdata/people-v%d.db", v), opt.Path)
		s := openStaff(t, opt)
		must(t, s.Verify(ctx))
		if x, _ := s.Session(); x == nil || x.Operator != "marie" || x.Float != 150_00 || !x.Locked {
			t.Errorf("%+v", x)
		}
		if failed(t, s, "07") != 3 {
			t.Error("the wrong tries are forgotten")
		}
		_, err := s.Reopen(ctx, pin(t, clerkPIN))
		must(t, err)
	}
	for v := 1; v <= len(registerKind().steps); v++ {
		w := newWorld()
		opt, _ := registerOptions(t, t.TempDir(), w)
		clone(t, fmt.Sprintf("testdata/register-v%d.db", v), opt.Path)
		clone(t, fmt.Sprintf("testdata/register-v%d.db.key", v), opt.Path+".key")
		r := openRegister(t, opt)
		must(t, r.Verify(ctx))
		if l := linked(t, r, identity()); l.Sum != 2000_00 {
			t.Errorf("%+v", l)
		}
		text, err := os.ReadFile(fmt.Sprintf("testdata/register-v%d.secret", v))
		must(t, err)
		private, err := ParseRegisterSecretKey(string(text))
		must(t, err)
		list, err := r.Pending(ctx, 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		if f, err := private.Open(list[0]); err != nil || f.Identity != identity() {
			t.Errorf("the identity came out otherwise: %v", err)
		}
	}
}

func clone(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, raw, 0o600))
}

func FuzzFilingAcceptsOnlyWhatItWrites(f *testing.F) {
	good, err := Filing{Version: filingVersion, Terminal: "T-1", Operator: "marie", Identity: identity(), Payments: payment(1, 5)}.encode()
	must(f, err)
	f.Add(good)
	f.Add(append(good, "   "...))
	f.Add([]byte("{}"))
	f.Add([]byte(`{"v":1}{"v":1}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		first, err := parseFiling(plain)
		if err != nil {
			return
		}
		text, err := first.encode()
		must(t, err)
		second, err := parseFiling(text)
		must(t, err)
		a, _ := json.Marshal(first)
		if b, _ := json.Marshal(second); !bytes.Equal(a, b) {
			t.Error("written again it reads otherwise")
		}
	})
}

func FuzzPersonIsTheSameHoweverTyped(f *testing.F) {
	f.Add("Lefèvre-Œuf", "Hélène Marie", "12AB-34")
	f.Add("ẞ", "ﬁ", "Ⅷ")
	f.Fuzz(func(t *testing.T, surname, first, no string) {
		i := identity()
		i.Surname, i.FirstNames, i.Number = surname, first, no
		if err := i.Validate(); errors.Is(err, ErrIdentity) {
			return
		}
		j := i
		j.Surname, j.Number = " "+bare(surname)+"-", "."+number(no)
		if personOf(make([]byte, 32), i) != personOf(make([]byte, 32), j) {
			t.Errorf("%q %q are not found again by %q %q", i.Surname, i.Number, j.Surname, j.Number)
		}
	})
}
