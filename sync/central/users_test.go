package central

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const goodPassword = "correct horse battery staple"

var here = netip.MustParseAddr("127.0.0.1")

// TestUserSignsInUntilHeMayNot, on each store: what ends a session, what is kept of a
// password, and that all of it is in the audit.
func TestUserSignsInUntilHeMayNot(t *testing.T) {
	onEachStore(t, testUserSignsInUntilHeMayNot)
}

func testUserSignsInUntilHeMayNot(t *testing.T, w *world) {
	ctx := t.Context()
	p, err := NewPassword(goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	if has, err := w.HasUsers(ctx); has || err != nil {
		t.Fatalf("a new central has users: %v %v", has, err)
	}
	if err := w.AddUser(ctx, "root", "claire", RoleViewer, p); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"a name twice": w.AddUser(ctx, "root", "claire", RoleOperator, p), "a role that is none": w.AddUser(ctx, "root", "denis", "root", p),
		"a name that is none": w.AddUser(ctx, "root", "Denis", RoleViewer, p), "the system's name": w.AddUser(ctx, "root", "system", RoleViewer, p)} {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.SuspendUser(ctx, "root", "denis"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody is suspended: %v", err)
	}
	signIn := func() (string, Session) {
		t.Helper()
		token, s, err := w.SignIn(ctx, "claire", TypedPassword(goodPassword), here)
		if err != nil {
			t.Fatal(err)
		}
		return token, s
	}
	alive := func(token string) bool {
		t.Helper()
		_, err := w.Session(ctx, token)
		if err != nil && !errors.Is(err, ErrNoSession) {
			t.Fatal(err)
		}
		return err == nil
	}
	first, s := signIn()
	second, _ := signIn()
	if first == second || s.Role != RoleViewer || !alive(first) || !alive(second) || alive(strings.Repeat("A", len(first))) || alive("") {
		t.Fatalf("%+v", s)
	}
	if err := w.SignOut(ctx, first); err != nil || alive(first) || !alive(second) {
		t.Fatalf("signed out: %v", err)
	}
	if err := w.SuspendUser(ctx, "root", "claire"); err != nil || alive(second) {
		t.Fatalf("suspended: %v", err)
	}
	if _, _, err := w.SignIn(ctx, "claire", TypedPassword(goodPassword), here); !errors.Is(err, ErrWrong) {
		t.Fatalf("a suspended user signs in: %v", err)
	}
	if _, err := w.Authenticate(ctx, "claire", TypedPassword(goodPassword)); !errors.Is(err, ErrWrong) {
		t.Fatalf("a suspended user may run a command: %v", err)
	}
	if err := w.ResumeUser(ctx, "root", "claire"); err != nil || alive(second) {
		t.Fatalf("resumed: %v", err)
	}
	stale, _ := signIn()
	w.clock.advance(sessionIdle)
	if alive(stale) {
		t.Error("a session lives without a request")
	}
	w.opt.PasswordCost.Passes = 2 // of a newer program
	live, _ := signIn()
	if n := w.count(t, "SELECT count(*) FROM sessions"); n != 1 || !alive(live) {
		t.Errorf("%d sessions are kept, one lives: %v", n, alive(live))
	}
	var stored string
	if err := w.Reader().QueryRowContext(ctx, "SELECT password FROM users").Scan(&stored); err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=8,t=2,p=1$") || strings.Contains(stored, "horse") {
		t.Errorf("kept of the password: %v", err)
	}
	if got, want := acts(t, w.Central), "user-add root, sign-in claire, sign-in claire, sign-out claire, user-suspend root, sign-in-failed , sign-in-failed , user-resume root, sign-in claire, sign-in claire"; got != want {
		t.Errorf("the audit: %s", got)
	}
	if list, err := w.Users(ctx); err != nil || len(list) != 1 || list[0].Role != RoleViewer || list[0].Suspended || list[0].Added.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
}

// TestManyGuessesAtOnceAreNoMoreThanOneAfterTheOther: what is looked at is counted before.
func TestManyGuessesAtOnceAreNoMoreThanOneAfterTheOther(t *testing.T) {
	w := &Central{}
	w.guesses = newGuesses()
	now := noon
	var looked int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			err := w.guesses.begin("claire", netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				looked++
			}
		})
	}
	all.Wait()
	if looked != freeByName {
		t.Errorf("%d were looked at, want %d", looked, freeByName)
	}
	for i := range 2 * mostGuessed { // a flood of names does not fill the memory
		_ = w.guesses.begin(fmt.Sprint(i), netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if n := len(w.guesses.of); n > mostGuessed+2 {
		t.Errorf("%d are remembered", n)
	}
}

func TestPasswordsShowNothingOfThemselves(t *testing.T) {
	p, err := NewPassword(goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, p); got != "Password(hidden)" {
			t.Errorf("%s: %s", verb, got)
		}
	}
	for _, bad := range []string{"", "elevenchars", "aaaaaaaaaaaaaaaa", "abababababababab", "twelve chars\n", strings.Repeat("long words ", 30), "twelve\x00chars!"} {
		if _, err := NewPassword(bad); !errors.Is(err, ErrRefused) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// TestAuditNamesTheFirstLineThatWasAltered, and goes on over what is not its own words.
func TestAuditNamesTheFirstLineThatWasAltered(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		if err := w.Note(t.Context(), "export", "claire", fmt.Sprintf("report %d\n\x00%s", i, strings.Repeat("é", 10*i*i))); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := auditOf(t, w.Central)
	if err != nil || len(lines) != 9 || lines[0].About != "report 0??" || len(lines[8].About) > maxAbout+3 {
		t.Fatalf("%+v, %v", lines, err)
	}
	newest, err := w.NewestAudit(t.Context(), 5, 2)
	if err != nil || len(newest) != 2 || newest[0].Seq != 4 || newest[1].Seq != 3 {
		t.Errorf("%+v, %v", newest, err)
	}
	w.exec(t, "UPDATE identity_audit SET line = replace(line, 'claire', 'xavier') WHERE seq IN (4, 7)")
	lines, err = auditOf(t, w.Central)
	if !errors.Is(err, ErrAudit) || !strings.Contains(err.Error(), "line 4:") || len(lines) != 3 {
		t.Errorf("%d lines before %v", len(lines), err)
	}
}

// TestRestoredCentralSignsEverybodyOut: who was suspended since the backup must not come back.
func TestRestoredCentralSignsEverybodyOut(t *testing.T) {
	w := newWorld(t)
	p, err := NewPassword(goodPassword)
	if err == nil {
		err = w.AddUser(t.Context(), "root", "claire", RoleViewer, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := w.SignIn(t.Context(), "claire", p, here)
	if err != nil {
		t.Fatal(err)
	}
	to, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "again")
	if _, err := w.Backup(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(context.Background(), to, Options{Dir: dir, Now: w.clock.now}, true); err != nil {
		t.Fatal(err)
	}
	again := openCentral(t, Options{Dir: dir, Now: w.clock.now})
	if _, err := again.Session(t.Context(), token); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session came back: %v", err)
	}
	if _, _, err := again.SignIn(t.Context(), "claire", p, here); err != nil {
		t.Errorf("the user did not: %v", err)
	}
}

// TestPageThatAsksByItselfKeepsOnlyAViewerIn: the end of another's idle session comes as if
// nobody had asked.
func TestPageThatAsksByItselfKeepsOnlyAViewerIn(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		for role, lives := range map[Role]bool{RoleViewer: true, RoleOperator: false, RoleSecurity: false, RoleAuditor: false} {
			p, err := NewPassword(goodPassword)
			if err == nil {
				err = w.AddUser(t.Context(), "root", string(role), role, p)
			}
			if err != nil {
				t.Fatal(err)
			}
			token, _, err := w.SignIn(t.Context(), string(role), p, netip.MustParseAddr("127.0.0.1"))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.clock.advance(sessionIdle / 2)
				_, err = w.WatchSession(t.Context(), token)
			}
			if (err == nil) != lives {
				t.Errorf("%s after %v: %v", role, 3*sessionIdle/2, err)
			}
		}
	})
}
