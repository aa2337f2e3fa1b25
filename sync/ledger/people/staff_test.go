package people

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/validate/money"
)

// world is the time as a terminal knows it, moved by hand.
type world struct {
	mu      sync.Mutex
	boot    int
	mono    time.Duration
	device  time.Time
	trusted time.Time
}

func newWorld() *world {
	return &world{mono: time.Hour, device: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
}

func (w *world) moment() ledger.Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ledger.Moment{Boot: fmt.Sprintf("boot-%d", w.boot), Mono: w.mono, Device: w.device, Trusted: w.trusted}
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mono += d
	if !w.trusted.IsZero() {
		w.trusted = w.trusted.Add(d)
	}
}

// reboot takes no time that the terminal could know of.
func (w *world) reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot++
	w.mono = 5 * time.Second
}

var cheap = Cost{Memory: 8, Passes: 1, Threads: 1}

func staffOptions(dir string, w *world) Options {
	return Options{Path: filepath.Join(dir, "people.db"), Terminal: "T-1", Moment: w.moment, AutoLock: 10 * time.Minute, cost: cheap}
}

func openStaff(t testing.TB, opt Options) *Staff {
	t.Helper()
	s, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func pin(t testing.TB, digits string) PIN {
	t.Helper()
	p, err := ParsePIN(digits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func as(t testing.TB, id, digits string) Credentials {
	return Credentials{Operator: id, PIN: pin(t, digits)}
}

// The staff of every test: their PINs.
const (
	technicianPIN = "8305274"
	managerPIN    = "27192"
	managerTwoPIN = "61803"
	clerkPIN      = "4071"
	clerkTwoPIN   = "9264"
	wrongPIN      = "5926"
	wrongPINTwo   = "1739"
)

// staffed makes a terminal with tech, the managers anne and bruno, the clerks marie and 07.
func staffed(t testing.TB, w *world) (*Staff, Options) {
	t.Helper()
	opt := staffOptions(t.TempDir(), w)
	s := openStaff(t, opt)
	ctx := context.Background()
	must(t, s.Add(ctx, Owner(), Operator{ID: "tech", Name: "Théo", Role: Technician}, pin(t, technicianPIN)))
	must(t, s.Add(ctx, as(t, "tech", technicianPIN), Operator{ID: "anne", Name: "Anne", Role: Manager}, pin(t, managerPIN)))
	must(t, s.Add(ctx, as(t, "anne", managerPIN), Operator{ID: "bruno", Name: "Bruno", Role: Manager}, pin(t, managerTwoPIN)))
	must(t, s.Add(ctx, as(t, "anne", managerPIN), Operator{ID: "marie", Name: "Marie", Role: Clerk}, pin(t, clerkPIN)))
	must(t, s.Add(ctx, as(t, "anne", managerPIN), Operator{ID: "07", Name: "Luc", Role: Clerk}, pin(t, clerkTwoPIN)))
	return s, opt
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, err, is error) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Fatalf("%v, want %v", err, is)
	}
}

// lockOut spends all tries of an operator and waits out the last delay.
func lockOut(t testing.TB, s *Staff, w *world, id string) {
	t.Helper()
	for range Tries {
		_, err := s.Approve(context.Background(), ActTraining, "", as(t, id, wrongPIN))
		if errors.Is(err, ErrRole) {
			_, err = s.SignOn(context.Background(), as(t, id, wrongPIN), 0, "EUR")
		}
		want(t, err, ErrWrong)
		w.pass(15 * time.Minute)
	}
}

func failed(t testing.TB, s *Staff, id string) int {
	t.Helper()
	list, err := s.Operators(context.Background())
	must(t, err)
	for _, o := range list {
		if o.ID == id {
			return o.Failed
		}
	}
	t.Fatalf("no operator %s", id)
	return 0
}

func audit(t testing.TB, lines func(context.Context, func(AuditLine) error) error) []string {
	t.Helper()
	var list []string
	must(t, lines(context.Background(), func(a AuditLine) error {
		list = append(list, a.Operator+" "+a.Act+" "+a.About)
		return nil
	}))
	return list
}

func TestWeakPINsAreRefused(t *testing.T) {
	for _, digits := range []string{"0000", "99999999", "1234", "12345678", "9876", "7890", "0987", "1357", "8642", "1212", "123123", "45674567", "112112"} {
		if err := pin(t, digits).fit("marie"); !errors.Is(err, ErrWeakPIN) {
			t.Errorf("%s: %v", digits, err)
		}
	}
	want(t, pin(t, "4071").fit("4071"), ErrWeakPIN)
	want(t, pin(t, "004071").fit("4071"), ErrWeakPIN)
	for _, digits := range []string{clerkPIN, managerPIN, technicianPIN, "1243", "11223", "12341235"} {
		must(t, pin(t, digits).fit("marie"))
	}
	fit := 0
	for n := range 10_000 {
		if pin(t, fmt.Sprintf("%04d", n)).fit("marie") == nil {
			fit++
		}
	}
	if fit != 9820 { // 10 000, less 100 of equal steps, less 100 repeated pairs, of which 20 are both
		t.Errorf("%d PINs of four digits are left, want 9820", fit)
	}
}

func TestPINNeverShows(t *testing.T) {
	p := pin(t, "48201937")
	c := Credentials{Operator: "marie", PIN: p}
	asJSON, err := json.Marshal(c)
	must(t, err)
	for _, text := range []string{fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s %d %x %q", p, p, p, p, p, p, p), fmt.Sprintf("%+v %#v", c, c), fmt.Sprint(&p), fmt.Errorf("%v", p).Error(), string(asJSON)} {
		if strings.Contains(text, "4820") || strings.Contains(text, hex.EncodeToString([]byte("4820"))) {
			t.Errorf("it shows: %s", text)
		}
	}
}

// TestArgonVector is the reference implementation's vector for Argon2id, 64 MiB, 2 passes.
func TestArgonVector(t *testing.T) {
	key := Cost{Memory: 1 << 16, Passes: 2, Threads: 1}.key("password", []byte("somesalt"))
	if got := hex.EncodeToString(key); got != "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7" {
		t.Error(got)
	}
}

func TestCostIsStoredAndRises(t *testing.T) {
	if h := shippedCost.hash(pin(t, clerkPIN)); !strings.HasPrefix(h, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatal(h)
	}
	s, opt := staffed(t, newWorld())
	stored := func() string {
		_, h, err := operator(context.Background(), s.file.DB, "marie")
		must(t, err)
		return h
	}
	if !strings.HasPrefix(stored(), "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Fatal(stored())
	}
	must(t, s.Close())
	opt.cost = Cost{Memory: 16, Passes: 2, Threads: 1}
	s = openStaff(t, opt)
	_, err := s.SignOn(context.Background(), as(t, "marie", wrongPIN), 0, "EUR")
	want(t, err, ErrWrong)
	if !strings.HasPrefix(stored(), "$argon2id$v=19$m=8,") {
		t.Error("a wrong PIN changed the hash")
	}
	for range 2 {
		_, err = s.SignOn(context.Background(), as(t, "marie", clerkPIN), 0, "EUR")
		must(t, err)
		if !strings.HasPrefix(stored(), "$argon2id$v=19$m=16,t=2,p=1$") {
			t.Fatal(stored())
		}
		_, err = s.SignOff(context.Background())
		must(t, err)
	}
}

func TestHostileHashIsDamage(t *testing.T) {
	good := cheap.hash(pin(t, clerkPIN))
	for _, bad := range []string{"", "$", "$$", strings.Replace(good, "m=8", "m=4294967295", 1), strings.Replace(good, "t=1", "t=0", 1),
		strings.Replace(good, "p=1", "p=0", 1), strings.Replace(good, "p=1", "p=255", 1), strings.Replace(good, "v=19", "v=16", 1), good + "=", good[:len(good)-1], good + "A", " " + good,
		strings.Replace(good, "m=8", "m=08", 1), strings.Replace(good, "argon2id", "argon2i", 1)} {
		if _, _, err := pin(t, clerkPIN).matches(bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("%.50q: %v", bad, err)
		}
	}
}

func TestUnknownOperatorCostsAsMuchAsWrongPIN(t *testing.T) {
	c, _, _, err := parseHash(cheap.Nobody())
	if err != nil || c != cheap {
		t.Fatalf("%v %v", c, err)
	}
	w := newWorld()
	var steps []string
	s, opt := staffed(t, w)
	must(t, s.Close())
	opt.step = func(step string) { steps = append(steps, step) }
	s = openStaff(t, opt)
	var refusals [2]*Refusal
	for i, id := range []string{"marie", "nobody"} {
		_, err := s.SignOn(context.Background(), as(t, id, wrongPIN), 0, "EUR")
		if !errors.As(err, &refusals[i]) {
			t.Fatal(err)
		}
	}
	if *refusals[0] != *refusals[1] || refusals[0].Left != 9 {
		t.Errorf("the answers differ: %v, %v", refusals[0], refusals[1])
	}
	if !slices.Equal(steps, []string{"counted", "answered", "counted", "answered"}) {
		t.Error(steps)
	}
	lines := audit(t, s.Audit)
	if got := lines[len(lines)-2:]; !slices.Equal(got, []string{"marie refused ", "? refused "}) {
		t.Errorf("%q: what was typed for an id may be a PIN", got)
	}
}

func TestAddFollowsTheRoles(t *testing.T) {
	w := newWorld()
	s, _ := staffed(t, w)
	ctx := context.Background()
	by := map[Role]Credentials{Clerk: as(t, "marie", clerkPIN), Manager: as(t, "anne", managerPIN), Technician: as(t, "tech", technicianPIN)}
	allowed := map[[2]Role]bool{{Manager, Clerk}: true, {Manager, Manager}: true, {Technician, Clerk}: true, {Technician, Manager}: true, {Technician, Technician}: true}
	n := 0
	for role, c := range by {
		for _, other := range []Role{Clerk, Manager, Technician} {
			n++
			err := s.Add(ctx, c, Operator{ID: fmt.Sprint("new", n), Name: "N", Role: other}, pin(t, clerkPIN))
			if allowed[[2]Role{role, other}] {
				must(t, err)
			} else {
				want(t, err, ErrRole)
			}
		}
	}
	want(t, s.Add(ctx, by[Manager], Operator{ID: "marie", Name: "M", Role: Clerk}, pin(t, clerkPIN)), ErrExists)
	want(t, s.Add(ctx, by[Manager], Operator{ID: "x", Name: "M", Role: Clerk}, pin(t, "1234")), ErrWeakPIN)
	want(t, s.Add(ctx, by[Manager], Operator{ID: "x", Name: "M", Role: Clerk}, PIN{}), ErrPIN)
	want(t, s.Add(ctx, as(t, "anne", wrongPIN), Operator{ID: "x", Name: "M", Role: Clerk}, pin(t, clerkPIN)), ErrWrong)
	for _, bad := range []Operator{{"", "N", Clerk, false, 0}, {"Marie", "N", Clerk, false, 0}, {"-a", "N", Clerk, false, 0}, {"owner", "N", Clerk, false, 0}, {"system", "N", Clerk, false, 0},
		{"abcdefghijklmnopq", "N", Clerk, false, 0}, {"a b", "N", Clerk, false, 0}, {"x", "", Clerk, false, 0}, {"x", "a\nb", Clerk, false, 0}, {"x", " a", Clerk, false, 0},
		{"x", strings.Repeat("é", 41), Clerk, false, 0}, {"x", "\xff", Clerk, false, 0}, {"x", "N", "boss", false, 0}} {
		want(t, s.Add(ctx, by[Manager], bad, pin(t, clerkPIN)), ErrOperator)
	}
}

func TestOwnerActsOnlyWhereNoOperatorCould(t *testing.T) {
	w := newWorld()
	s, _ := staffed(t, w)
	ctx := context.Background()
	want(t, s.Add(ctx, Owner(), Operator{ID: "x", Name: "X", Role: Clerk}, pin(t, clerkPIN)), ErrOwner)
	want(t, s.SetPIN(ctx, Owner(), "tech", pin(t, "480193")), ErrOwner)
	want(t, s.Unlock(ctx, Owner(), "marie"), ErrOwner)

	lockOut(t, s, w, "tech")
	want(t, s.Unlock(ctx, as(t, "anne", managerPIN), "tech"), ErrRole)
	must(t, s.Unlock(ctx, Owner(), "tech"))
	must(t, s.Suspend(ctx, as(t, "tech", technicianPIN), "anne"))
	want(t, s.Resume(ctx, Owner(), "anne"), ErrOwner)
	if _, err := s.Approve(ctx, ActService, "selftest", Credentials{Operator: "owner", PIN: pin(t, clerkPIN), owner: true}); err == nil {
		t.Error("the owner approved an act")
	}
}

func TestWhoLooksAfterWhom(t *testing.T) {
	ctx := context.Background()
	pins := map[string]string{"tech": technicianPIN, "tech2": "640172", "anne": managerPIN, "bruno": managerTwoPIN, "marie": clerkPIN, "07": clerkTwoPIN}
	allowed := []string{"tech tech2", "tech2 tech", "tech anne", "tech marie", "anne marie", "anne 07", "bruno marie", "tech bruno", "tech 07", "tech2 anne", "tech2 bruno", "tech2 marie", "tech2 07", "bruno 07"}
	w := newWorld()
	s, _ := staffed(t, w)
	must(t, s.Add(ctx, as(t, "tech", technicianPIN), Operator{ID: "tech2", Name: "T", Role: Technician}, pin(t, pins["tech2"])))
	for by, digits := range pins {
		for on, theirs := range pins {
			may := slices.Contains(allowed, by+" "+on)
			for name, act := range map[string]func() error{
				"unlock":  func() error { return s.Unlock(ctx, as(t, by, digits), on) },
				"suspend": func() error { return s.Suspend(ctx, as(t, by, digits), on) },
				"resume":  func() error { return s.Resume(ctx, as(t, by, digits), on) },
			} {
				if err := act(); (err == nil) != may || err != nil && !errors.Is(err, ErrRole) {
					t.Errorf("%s %s %s: %v", by, name, on, err)
				}
			}
			if may {
				must(t, s.Resume(ctx, as(t, by, digits), on))
			}
			if err := s.SetPIN(ctx, as(t, by, digits), on, pin(t, "31874")); (err == nil) != (may || by == on) {
				t.Errorf("%s sets the PIN of %s: %v", by, on, err)
			} else if err == nil {
				back := by
				if by == on { // only the new PIN may put the old one back
					must(t, s.SetPIN(ctx, as(t, on, "31874"), on, pin(t, theirs)))
					continue
				}
				must(t, s.SetPIN(ctx, as(t, back, digits), on, pin(t, theirs)))
			}
		}
	}
	want(t, s.Unlock(ctx, as(t, "anne", managerPIN), "ghost"), ErrUnknown)
	want(t, s.SetPIN(ctx, as(t, "marie", clerkPIN), "marie", pin(t, clerkPIN)), ErrWeakPIN)
}

func TestChangedPINsHashIsGone(t *testing.T) {
	ctx := context.Background()
	s, opt := staffed(t, newWorld())
	_, old, err := operator(ctx, s.file.DB, "marie")
	must(t, err)
	if !inFiles(t, opt.Path, []byte(old)) {
		t.Fatal("the hash is not found even before: the test proves nothing")
	}
	must(t, s.SetPIN(ctx, as(t, "anne", managerPIN), "marie", pin(t, "31874")))
	if inFiles(t, opt.Path, []byte(old)) {
		t.Error("the old hash can still be read")
	}
	_, err = s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	want(t, err, ErrWrong)
	_, err = s.SignOn(ctx, as(t, "marie", "31874"), 0, "EUR")
	must(t, err)
}

// inFiles looks for bytes in the file and its log.
func inFiles(t testing.TB, path string, needle []byte) bool {
	t.Helper()
	found := false
	for _, p := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		raw, err := os.ReadFile(p)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(raw), string(needle))
	}
	return found
}

func TestSessionOutlivesARestartLocked(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	if x, _ := s.Session(); x != nil {
		t.Fatal(x)
	}
	_, err := s.Acting()
	want(t, err, ErrNobody)
	_, err = s.Reopen(ctx, pin(t, clerkPIN))
	want(t, err, ErrNobody)
	_, err = s.SignOn(ctx, as(t, "tech", technicianPIN), 0, "EUR")
	want(t, err, ErrRole)
	for _, float := range []money.Amount{-1, maxFloat + 1} {
		if _, err = s.SignOn(ctx, as(t, "marie", clerkPIN), float, "EUR"); err == nil {
			t.Error("a float of", float)
		}
	}
	_, before := s.Session()
	first, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 150_00, "EUR")
	must(t, err)
	<-before
	if first.Number != 1 || first.Operator != "marie" || first.Name != "Marie" || first.Float != 150_00 || first.Locked || !first.Since.Equal(w.device) {
		t.Errorf("%+v", first)
	}
	_, err = s.SignOn(ctx, as(t, "07", clerkTwoPIN), 0, "EUR")
	want(t, err, ErrSignedOn)
	if _, err := s.Acting(); err != nil {
		t.Fatal(err)
	}

	must(t, s.Close())
	w.reboot()
	s = openStaff(t, opt)
	x, _ := s.Session()
	first.Locked = true
	if x == nil || *x != first {
		t.Fatalf("after the restart %+v, want %+v", x, first)
	}
	_, err = s.Acting()
	want(t, err, ErrSessionLocked)
	_, err = s.SignOff(ctx)
	want(t, err, ErrSessionLocked)
	_, err = s.Reopen(ctx, pin(t, wrongPIN))
	want(t, err, ErrWrong)
	_, err = s.Reopen(ctx, pin(t, clerkTwoPIN)) // another clerk's
	want(t, err, ErrWrong)
	again, err := s.Reopen(ctx, pin(t, clerkPIN))
	must(t, err)
	if again.Failed != 2 {
		t.Errorf("%d wrong tries are told, want 2", again.Failed)
	}
	_, err = s.SignOff(ctx)
	must(t, err)
	second, err := s.SignOn(ctx, as(t, "anne", managerPIN), 0, "EUR")
	if err != nil || second.Number != 2 {
		t.Errorf("%+v %v", second, err)
	}
}

func TestManagerEndsTheSessionOfWhoLeft(t *testing.T) {
	ctx := context.Background()
	s, opt := staffed(t, newWorld())
	_, err := s.EndSession(ctx, as(t, "anne", managerPIN))
	want(t, err, ErrNobody)
	_, err = s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	must(t, err)
	s.Lock()
	_, err = s.EndSession(ctx, as(t, "07", clerkTwoPIN))
	want(t, err, ErrRole)
	_, err = s.EndSession(ctx, as(t, "anne", managerPIN))
	must(t, err)
	must(t, s.Close())
	s = openStaff(t, opt)
	if x, _ := s.Session(); x != nil {
		t.Errorf("%+v", x)
	}
}

func TestSuspendedOperatorActsNoMore(t *testing.T) {
	ctx := context.Background()
	s, _ := staffed(t, newWorld())
	_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	must(t, err)
	must(t, s.Suspend(ctx, as(t, "anne", managerPIN), "marie"))
	_, err = s.Acting()
	want(t, err, ErrSessionLocked)
	_, err = s.Reopen(ctx, pin(t, clerkPIN))
	want(t, err, ErrSuspended)
	_, err = s.Reopen(ctx, pin(t, wrongPIN))
	want(t, err, ErrWrong)
	must(t, s.Resume(ctx, as(t, "anne", managerPIN), "marie"))
	_, err = s.Reopen(ctx, pin(t, clerkPIN))
	must(t, err)
}

func TestApprovalNeedsTheRightRole(t *testing.T) {
	ctx := context.Background()
	s, _ := staffed(t, newWorld())
	acts := map[Act]string{ActReversal: "anne", ActClosing: "anne", ActIdentity: "anne", ActTraining: "anne tech", ActService: "tech"}
	for act, who := range acts {
		for id, digits := range map[string]string{"tech": technicianPIN, "anne": managerPIN, "marie": clerkPIN} {
			got, err := s.Approve(ctx, act, "1-000017", as(t, id, digits))
			if strings.Contains(who, id) {
				if err != nil || got != id {
					t.Errorf("%s by %s: %q, %v", act, id, got, err)
				}
			} else {
				want(t, err, ErrRole)
			}
		}
	}
	_, err := s.Approve(ctx, "anything", "", as(t, "anne", managerPIN))
	want(t, err, ErrRole)
	_, err = s.Approve(ctx, ActReversal, "1-000017", as(t, "anne", wrongPIN))
	want(t, err, ErrWrong)
	lines := audit(t, s.Audit)
	if !slices.Contains(lines, "anne approve reversal 1-000017") || lines[len(lines)-1] != "anne refused " {
		t.Errorf("%q", lines)
	}
	if x, _ := s.Session(); x != nil {
		t.Error("an approval signed on")
	}
}
