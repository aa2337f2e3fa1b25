package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"grattoir/sync/ledger"
)

func TestFilesAreTheirOwnersOnly(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	for _, p := range []string{opt.Path, opt.Path + "-wal", opt.Path + ".lock"} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
	must(t, s.Close())
	for _, mode := range []os.FileMode{0o644, 0o660, 0o604} {
		must(t, os.Chmod(opt.Path, mode))
		_, err := Open(ctx, opt)
		want(t, err, ledger.ErrMode)
		if !strings.Contains(err.Error(), "chmod 600 "+opt.Path) {
			t.Error(err)
		}
	}
	must(t, os.Chmod(opt.Path, 0o600))
	openStaff(t, opt)
}

func TestLostFileIsNoFirstStart(t *testing.T) {
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	for _, p := range []string{opt.Path, opt.Path + "-wal", opt.Path + "-shm"} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	_, err := Open(context.Background(), opt)
	want(t, err, ErrDamaged)
	must(t, os.Remove(opt.Path+".lock"))
	s = openStaff(t, opt)
	must(t, s.Add(context.Background(), Owner(), Operator{ID: "a", Name: "A", Role: Manager}, pin(t, managerPIN)))
}

func TestForeignFilesAreRefused(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	other := opt
	other.Terminal = "T-2"
	if _, err := Open(ctx, other); err == nil || !strings.Contains(err.Error(), `of terminal "T-1", not of "T-2"`) {
		t.Error(err)
	}
	other.Terminal = ""
	if _, err := Open(ctx, other); err == nil {
		t.Error("a terminal with no name")
	}
	ropt, _ := registerOptions(t, t.TempDir(), w)
	ropt.Path = opt.Path
	_, err := OpenRegister(ctx, ropt)
	want(t, err, ErrDamaged)

	s = openStaff(t, opt)
	_, err = s.file.DB.Exec("PRAGMA user_version = 99")
	must(t, err)
	must(t, s.Close())
	if _, err := Open(ctx, opt); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Error(err)
	}
	opt = staffOptions(t.TempDir(), w)
	must(t, os.WriteFile(opt.Path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	_, err = Open(ctx, opt)
	want(t, err, ErrDamaged)
}

// TestDamagedFileIsNoticedOrHarmless changes bytes anywhere: the file is refused, or
// opens and knows the same operators with the same tries, and wrong PINs stay wrong.
func TestDamagedFileIsNoticedOrHarmless(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	for range 4 {
		_, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR")
		if !errors.Is(err, ErrWrong) && !errors.Is(err, ErrWait) {
			t.Fatal(err)
		}
	}
	must(t, s.file.scrub(ctx))
	must(t, s.Close())
	whole, err := os.ReadFile(opt.Path)
	must(t, err)
	dirs, runs, refused := memory(t), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		at := rapid.IntRange(0, len(whole)-1).Draw(rt, "at")
		cut := rapid.Bool().Draw(rt, "cut")
		raw := slices.Clone(whole)
		if cut {
			raw = raw[:at]
		} else {
			raw[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		}
		opt := opt
		opt.Path = filepath.Join(dirs, fmt.Sprint(runs), "people.db")
		must(rt, os.Mkdir(filepath.Dir(opt.Path), 0o700))
		must(rt, os.WriteFile(opt.Path, raw, 0o600))
		must(rt, os.WriteFile(opt.Path+".lock", []byte("operators of terminal T-1 exists\n"), 0o600))
		s, err := Open(ctx, opt)
		if err != nil {
			refused++
			return
		}
		defer func() { _ = s.Close() }()
		if _, err := s.Approve(ctx, ActTraining, "", Credentials{"anne", PIN{wrongPIN}, false}); err == nil {
			rt.Fatalf("byte %d: a wrong PIN was taken", at)
		}
	})
	if refused == 0 {
		t.Error("no damage was ever noticed")
	}
}

// TestVersionThatNoProgramWritesIsDamage: one flipped bit makes it negative.
func TestVersionThatNoProgramWritesIsDamage(t *testing.T) {
	for _, version := range []string{"0", "-1", "-2147483648"} {
		s, opt := staffed(t, newWorld())
		_, err := s.file.DB.Exec("PRAGMA user_version = " + version)
		must(t, err)
		must(t, s.Close())
		_, err = Open(context.Background(), opt)
		want(t, err, ErrDamaged)
	}
}

func TestChangedAuditIsNoticed(t *testing.T) {
	ctx := context.Background()
	for _, change := range []string{
		"UPDATE audit SET line = replace(line, 'anne', 'luci') WHERE seq = 4",
		"UPDATE audit SET hash = zeroblob(32) WHERE seq = 2",
		"DELETE FROM audit WHERE seq = 3",
		"DELETE FROM audit WHERE seq = 1",
		"UPDATE audit SET line = line || ' ' WHERE seq = 5",
		"UPDATE audit SET seq = 60 WHERE seq = 5",
	} {
		w := newWorld()
		s, opt := staffed(t, w)
		if _, err := s.file.DB.Exec(change); err == nil {
			t.Fatal("the triggers let it happen")
		}
		_, err := s.file.DB.Exec("DROP TRIGGER audit_stays; DROP TRIGGER audit_kept; " + change)
		must(t, err)
		want(t, s.Verify(ctx), ErrDamaged)
		must(t, s.Close())
		_, err = Open(ctx, opt)
		want(t, err, ErrDamaged)
	}
}

// TestAuditLineWrittenAnewWithItsHashIsNoticed: the next line carries the old one's hash.
func TestAuditLineWrittenAnewWithItsHashIsNoticed(t *testing.T) {
	ctx := context.Background()
	s, _ := staffed(t, newWorld())
	var line string
	must(t, s.file.DB.QueryRow("SELECT line FROM audit WHERE seq = 3").Scan(&line))
	line = strings.Replace(line, "anne", "luci", 1)
	sum := hashLine([]byte(line))
	_, err := s.file.DB.Exec("DROP TRIGGER audit_stays")
	must(t, err)
	_, err = s.file.DB.Exec("UPDATE audit SET line = ?, hash = ? WHERE seq = 3", line, sum[:])
	must(t, err)
	want(t, s.Verify(ctx), ErrDamaged)
}

// TestOpenLooksAtTheNewestAuditLinesVerifyAtAll: a counter must be ready soon.
func TestOpenLooksAtTheNewestAuditLinesVerifyAtAll(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.file.write(ctx, func(tx *sql.Tx) error {
		for range tail + 10 {
			if err := s.file.note(ctx, tx, "approve", "anne", "closing"); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err := s.file.DB.Exec("DROP TRIGGER audit_stays; UPDATE audit SET line = replace(line, 'anne', 'luci') WHERE seq = 4")
	must(t, err)
	must(t, s.Close())
	s = openStaff(t, opt)
	want(t, s.Verify(ctx), ErrDamaged)
}

// later is the operators' file of an invented later version.
func later(steps ...string) fileKind {
	k := staffKind()
	k.steps = append(k.steps, steps)
	return k
}

func TestMigrationGoesForwardAndKeepsNoCopy(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	f, err := openFile(ctx, opt.Path, later("ALTER TABLE operators ADD COLUMN badge TEXT NOT NULL DEFAULT ''"), "T-1", w.moment, disk{})
	must(t, err)
	var n int
	must(t, f.DB.QueryRow("SELECT count(*) FROM operators WHERE badge = ''").Scan(&n))
	must(t, f.Close())
	if n != 5 {
		t.Errorf("%d operators came along", n)
	}
	if left, _ := filepath.Glob(opt.Path + "*copy*"); len(left) > 0 {
		t.Errorf("old hashes lie in %v", left)
	}
	if _, err := Open(ctx, opt); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Error(err)
	}
}

func TestFailedMigrationLeavesTheFileAndACopy(t *testing.T) {
	ctx := context.Background()
	for name, kind := range map[string]fileKind{
		"bad statement": later("CREATE TABLE more(x)", "no SQL"),
		"broken reference": later("CREATE TABLE more(x TEXT REFERENCES operators(id) DEFERRABLE INITIALLY DEFERRED)",
			"PRAGMA defer_foreign_keys = ON", "INSERT INTO more VALUES('ghost')"),
		"audit changed": later("DROP TRIGGER audit_stays", "UPDATE audit SET line = '{}' WHERE seq = 2"),
	} {
		w := newWorld()
		s, opt := staffed(t, w)
		must(t, s.Close())
		for range 2 { // the second finds the copy of the first
			_, err := openFile(ctx, opt.Path, kind, "T-1", w.moment, disk{})
			if err == nil || !strings.Contains(err.Error(), "nothing is lost") {
				t.Fatalf("%s: %v", name, err)
			}
		}
		spare := opt
		spare.Path = filepath.Join(t.TempDir(), "people.db")
		clone(t, opt.Path+".v1-copy", spare.Path)
		for _, o := range []Options{opt, spare} {
			s := openStaff(t, o)
			_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
			must(t, err)
			must(t, s.Close())
		}
		info, err := os.Stat(opt.Path + ".v1-copy")
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
}

// TestIdleCounterLocksByItself, and tells whoever waits for a change, at the moment.
func TestIdleCounterLocksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		opt := staffOptions(t.TempDir(), newWorld())
		opt.Moment = func() ledger.Moment { return ledger.Moment{Boot: "b", Mono: time.Since(start), Device: time.Now()} }
		s, err := Open(t.Context(), opt)
		must(t, err)
		defer func() { must(t, s.Close()) }()
		must(t, s.Add(t.Context(), Owner(), Operator{ID: "anne", Name: "Anne", Role: Manager}, pin(t, managerPIN)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		_, err = s.SignOn(t.Context(), as(t, "anne", managerPIN), 0, "EUR")
		must(t, err)
		time.Sleep(opt.AutoLock - time.Second)
		_, err = s.Acting() // an act: the time begins anew
		must(t, err)
		_, changed := s.Session()
		idle := time.Now()
		<-changed
		if got := time.Since(idle); got < opt.AutoLock || got > opt.AutoLock+2*time.Millisecond {
			t.Errorf("locked after %v", got)
		}
		if x, _ := s.Session(); x == nil || !x.Locked {
			t.Errorf("%+v", x)
		}
		_, err = s.Acting()
		want(t, err, ErrSessionLocked)
		_, err = s.Reopen(t.Context(), pin(t, managerPIN))
		must(t, err)
		_, err = s.Acting()
		must(t, err)
		stop()
		want(t, <-done, context.Canceled)
	})
}

// TestIdleCounterLocksWithoutTheTimer: nobody need run Run for the lock to hold.
func TestIdleCounterLocksWithoutTheTimer(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	must(t, err)
	w.pass(opt.AutoLock - 1)
	_, err = s.Acting()
	must(t, err)
	w.device = w.device.AddDate(50, 0, 0)
	_, err = s.Acting()
	must(t, err)
	w.pass(opt.AutoLock)
	_, err = s.Acting()
	want(t, err, ErrSessionLocked)
	must(t, s.Close())
	opt.AutoLock = 0
	s = openStaff(t, opt)
	_, err = s.Reopen(ctx, pin(t, clerkPIN))
	must(t, err)
	w.pass(1000 * time.Hour)
	_, err = s.Acting()
	must(t, err)
}

func TestEveryErrorHasWordsThatFit(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range append(messages(), explained{errors.New("any other"), Explain(errors.New("any other"))}) {
		if seen[m.Code] || m.Code == "" || m.Technician == "" {
			t.Errorf("%v: code %q", m.err, m.Code)
		}
		seen[m.Code] = true
		if got := Explain(fmt.Errorf("deep: %w", m.err)); got != m.Message {
			t.Errorf("%v reads as %s", m.err, got.Code)
		}
		if named := Named(m.Code); m.Code != "O0" && named != m.err || m.Code == "O0" && named != nil {
			t.Errorf("%s stands for %v", m.Code, named)
		}
		for _, text := range []string{m.ClerkFR, m.ClerkEN} {
			lines := strings.Split(text, "\n")
			if text == "" || len(lines) > 2 {
				t.Errorf("%s: %d lines", m.Code, len(lines))
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > 32 {
					t.Errorf("%s: %d columns: %s", m.Code, n, l)
				}
			}
		}
	}
	if got := Explain(&Refusal{Reason: ErrWait, Wait: time.Minute}); got.Code != "O7" {
		t.Error(got)
	}
	if n := reflect.ValueOf(messages()).Len(); n != 25 {
		t.Errorf("%d errors have words: add the new one here and in SECURITY.md's table where it belongs", n)
	}
}

func FuzzPIN(f *testing.F) {
	for _, s := range []string{"4071", " 4071\r\n", "", "407", "407140714", "40 71", "４０７１", "4071\x00", "+4071", "٤٠٧١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePIN(text)
		if err != nil {
			if err != ErrPIN {
				t.Errorf("%v", err)
			}
			return
		}
		if len(p.digits) < minPIN || len(p.digits) > maxPIN || strings.Trim(p.digits, "0123456789") != "" || !strings.Contains(text, p.digits) {
			t.Fatal("it took what is no PIN")
		}
		if again, err := ParsePIN(p.digits); err != nil || again != p {
			t.Fatal("it does not take its own digits")
		}
	})
}

func FuzzStoredHash(f *testing.F) {
	f.Add(cheap.hash(PIN{clerkPIN}))
	f.Add("$argon2id$v=19$m=8,t=1,p=1$$")
	f.Fuzz(func(t *testing.T, stored string) {
		c, salt, key, err := parseHash(stored)
		if err == nil && (c.text(salt, key) != stored || c.Memory > maxMemory) {
			t.Fatal(stored)
		}
	})
}

func FuzzAuditLine(f *testing.F) {
	line, err := AuditLine{Version: 1, Terminal: "T-1", Seq: 1, Act: "sign-on", Operator: "marie", Prev: strings.Repeat("0", 64)}.encode()
	must(f, err)
	f.Add(line)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := parseAuditLine(line)
		if err != nil {
			return
		}
		if again, err := a.encode(); err != nil || string(again) != string(line) {
			t.Fatalf("%q is written again as %q", line, again)
		}
	})
}

// BenchmarkPIN is one look at a PIN at the shipped cost: what a guess costs a thief.
func BenchmarkPIN(b *testing.B) {
	stored := shippedCost.hash(PIN{clerkPIN})
	for b.Loop() {
		if ok, _, err := (PIN{wrongPIN}).matches(stored); ok || err != nil {
			b.Fatal(err)
		}
	}
}
