package people

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDelaysAfterWrongPINs walks the table: a nanosecond early is refused and not
// counted, at the moment it is heard.
func TestDelaysAfterWrongPINs(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, _ := staffed(t, w)
	for i, delay := range []time.Duration{0, 0, 0, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		if delay > 0 {
			w.pass(delay - 1)
			_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR") // the right one: it is not looked at either
			var r *Refusal
			if !errors.As(err, &r) || r.Reason != ErrWait || r.Wait != 1 {
				t.Fatalf("before try %d: %v, want a wait of 1ns", i+1, err)
			}
			if failed(t, s, "marie") != i {
				t.Fatalf("a try that was not looked at counted")
			}
			w.pass(1)
		}
		_, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR")
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != ErrWrong || r.Left != Tries-i-1 || r.Wait != Delay(i+1) {
			t.Fatalf("try %d: %v", i+1, err)
		}
	}
	w.pass(1000 * time.Hour)
	_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	want(t, err, ErrLockedOut)
	must(t, s.Unlock(ctx, as(t, "anne", managerPIN), "marie"))
	x, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	if err != nil || x.Failed != 0 {
		t.Errorf("%+v %v", x, err)
	}
}

func TestRightPINForgetsTheWrongOnes(t *testing.T) {
	ctx := context.Background()
	s, _ := staffed(t, newWorld())
	for range 5 {
		for range 2 {
			_, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR")
			want(t, err, ErrWrong)
		}
		x, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
		if err != nil || x.Failed != 2 {
			t.Fatalf("%+v %v", x, err)
		}
		_, err = s.SignOff(ctx)
		must(t, err)
	}
}

// TestDelaySurvivesRestarts: within a boot it goes on; after a reboot the whole delay
// runs again; the device's clock changes nothing.
func TestDelaySurvivesRestarts(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	left := func() time.Duration {
		t.Helper()
		_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != ErrWait {
			t.Fatalf("%v, want a wait", err)
		}
		return r.Wait
	}
	for range 3 {
		_, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR")
		want(t, err, ErrWrong)
	}
	w.pass(20 * time.Second)
	must(t, s.Close())
	s = openStaff(t, opt)
	if got := left(); got != 10*time.Second {
		t.Errorf("after the program's restart %v are left, want 10s", got)
	}
	for _, year := range []int{-20, 40, 3} {
		w.device = w.device.AddDate(year, 0, 0)
		if got := left(); got != 10*time.Second {
			t.Errorf("with another date %v are left, want 10s", got)
		}
	}
	must(t, s.Close())
	w.reboot()
	w.mono = 3 * time.Hour // the terminal was up for long before the daemon was started
	s = openStaff(t, opt)
	w.pass(12 * time.Second) // counted from the start, not from the next try
	if got := left(); got != 18*time.Second {
		t.Errorf("12 s after the reboot %v are left, want 18s of all 30s", got)
	}
	w.mono = time.Minute // a time since boot that runs backwards proves nothing
	if got := left(); got != 30*time.Second {
		t.Errorf("%v are left, want all 30s", got)
	}
	w.pass(30 * time.Second)
	_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	must(t, err)
}

// TestGuessingOverAllOperatorsLocksTheTerminal: one PIN tried on everybody, with ids
// that do not exist between.
func TestGuessingOverAllOperatorsLocksTheTerminal(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	for i := range Tries {
		w.pass(Delay(i))
		_, err := s.SignOn(ctx, as(t, []string{"marie", "07", "ghost", "phantom"}[i%4], wrongPIN), 0, "EUR")
		want(t, err, ErrWrong)
		if Delay(i+1) > 0 {
			_, err = s.SignOn(ctx, as(t, "bruno", managerTwoPIN), 0, "EUR") // untouched himself, the terminal waits all the same
			want(t, err, ErrWait)
		}
	}
	w.pass(100 * time.Hour)
	must(t, s.Close())
	w.reboot()
	s = openStaff(t, opt)
	w.pass(100 * time.Hour)
	_, err := s.SignOn(ctx, as(t, "07", clerkTwoPIN), 0, "EUR")
	want(t, err, ErrTerminalLocked)
	_, err = s.SignOn(ctx, as(t, "ghost", wrongPIN), 0, "EUR")
	want(t, err, ErrTerminalLocked)
	_, err = s.Approve(ctx, ActTraining, "", as(t, "anne", wrongPIN))
	want(t, err, ErrWrong)
	_, err = s.Approve(ctx, ActTraining, "", as(t, "anne", managerPIN))
	want(t, err, ErrWait)
	w.pass(15 * time.Minute)
	_, err = s.Approve(ctx, ActTraining, "", as(t, "anne", managerPIN))
	must(t, err)
	_, err = s.SignOn(ctx, as(t, "07", clerkTwoPIN), 0, "EUR")
	must(t, err)
}

// TestGuessingAtOnceGivesNoMoreTries: the socket may bring any number at one moment.
func TestGuessingAtOnceGivesNoMoreTries(t *testing.T) {
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	looked := 0
	opt.step = func(step string) {
		if step == "answered" {
			looked++
		}
	}
	s = openStaff(t, opt)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := s.SignOn(context.Background(), Credentials{"marie", PIN{wrongPIN}, false}, 0, "EUR")
			if !errors.Is(err, ErrWrong) && !errors.Is(err, ErrWait) {
				t.Error(err)
			}
			_, _ = s.Session()
		})
	}
	group.Wait()
	if looked != 3 || failed(t, s, "marie") != 3 {
		t.Errorf("%d PINs were looked at, want 3", looked)
	}
	s.gate <- struct{}{} // an act is under way
	gone, leave := context.WithCancel(context.Background())
	leave()
	_, err := s.SignOn(gone, as(t, "marie", clerkPIN), 0, "EUR")
	want(t, err, context.Canceled)
	<-s.gate
}

func TestSuspendedOperatorsPINFreesNobody(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, _ := staffed(t, w)
	must(t, s.Suspend(ctx, as(t, "anne", managerPIN), "07"))
	for i := range 4 {
		w.pass(Delay(2 * i))
		_, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR")
		want(t, err, ErrWrong)
		w.pass(Delay(2*i + 1))
		_, err = s.SignOn(ctx, as(t, "07", clerkTwoPIN), 0, "EUR")
		want(t, err, ErrSuspended)
	}
	_, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	want(t, err, ErrWait)
}

// TestIdsThatDoNotExistFillNoDisk: they share one count.
func TestIdsThatDoNotExistFillNoDisk(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, _ := staffed(t, w)
	for i := range 40 {
		_, err := s.SignOn(ctx, as(t, fmt.Sprint("ghost", i), wrongPIN), 0, "EUR")
		if !errors.Is(err, ErrWrong) && !errors.Is(err, ErrLockedOut) {
			t.Fatal(err)
		}
		w.pass(time.Hour)
	}
	var n int
	must(t, s.file.DB.QueryRow("SELECT count(*) FROM tries").Scan(&n))
	if n != 2 {
		t.Errorf("%d counts, want those of unknown ids and of the terminal", n)
	}
}

// TestNoAnswerWhenTheTryCannotBeCounted: a full or read-only disk must not give free tries.
func TestNoAnswerWhenTheTryCannotBeCounted(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	answered := 0
	opt.step = func(string) { answered++ }
	s = openStaff(t, opt)
	_, err := s.file.DB.Exec("PRAGMA query_only = ON")
	must(t, err)
	_, err = s.SignOn(ctx, as(t, "marie", clerkPIN), 0, "EUR")
	want(t, err, ErrNotWritable)
	if answered != 0 {
		t.Error("the PIN was looked at")
	}
}

// TestKilledBetweenCountAndAnswerGivesNoTryBack kills a process of its own with SIGKILL
// at every step of an attempt, and reopens what it left.
func TestKilledBetweenCountAndAnswerGivesNoTryBack(t *testing.T) {
	if spec := os.Getenv("GRATTOIR_PEOPLE_CHILD"); spec != "" {
		child(t, spec)
		return
	}
	for _, step := range []string{"counted", "answered"} {
		for _, digits := range []string{wrongPIN, clerkPIN} {
			w := newWorld()
			s, opt := staffed(t, w)
			must(t, s.Close())
			runChild(t, step+" "+digits+" "+filepath.Dir(opt.Path))
			s = openStaff(t, opt)
			if got := failed(t, s, "marie"); got != 1 {
				t.Errorf("killed when %s: %d tries counted, want 1", step, got)
			}
			if x, _ := s.Session(); x != nil {
				t.Error("somebody is signed on")
			}
		}
	}
}

// TestSecondProcessIsKeptOut: as long as the first lives, however it ends.
func TestSecondProcessIsKeptOut(t *testing.T) {
	w := newWorld()
	s, opt := staffed(t, w)
	must(t, s.Close())
	cmd, out := startChild(t, "hold x "+filepath.Dir(opt.Path))
	line := make([]byte, 5)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "open\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, err := Open(context.Background(), opt)
	want(t, err, ErrInUse)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	openStaff(t, opt)
}

func startChild(t *testing.T, spec string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenCountAndAnswerGivesNoTryBack$")
	cmd.Env = append(os.Environ(), "GRATTOIR_PEOPLE_CHILD="+spec)
	_, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, out
}

func runChild(t *testing.T, spec string) {
	t.Helper()
	cmd, out := startChild(t, spec)
	text, err := io.ReadAll(out)
	must(t, err)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %v\n%s", err, text)
	}
}

// child is the process that is killed: "STEP DIGITS DIR".
func child(t *testing.T, spec string) {
	part := strings.SplitN(spec, " ", 3)
	opt := staffOptions(part[2], newWorld())
	opt.step = func(step string) {
		if step == part[0] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	s, err := Open(context.Background(), opt)
	must(t, err)
	if part[0] == "hold" {
		fmt.Println("open")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent is gone
		return
	}
	_, err = s.SignOn(context.Background(), as(t, "marie", part[1]), 0, "EUR")
	t.Fatalf("it lived on: %v", err)
}

// TestNoSequenceGivesMoreGuessesThanTheTable: whatever is tried, in whatever order, with
// power cuts at any step, restarts, reboots and a device clock that says anything, every
// PIN that is looked at comes at least the table's delay after the one before, counted
// in real time, and never after the last try.
func TestNoSequenceGivesMoreGuessesThanTheTable(t *testing.T) {
	dirs := memory(t)
	made, opt := staffed(t, newWorld())
	must(t, made.Close())
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		g := &game{w: newWorld(), dir: filepath.Join(dirs, fmt.Sprint(runs)), guesses: map[string]*guesses{}}
		copyFiles(t, filepath.Dir(opt.Path), g.dir)
		g.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"wrong":   func(t *rapid.T) { g.try(t, false) },
			"right":   func(t *rapid.T) { g.try(t, true) },
			"hammer":  g.hammer,
			"wait":    g.wait,
			"clock":   func(t *rapid.T) { g.w.device = g.w.device.AddDate(rapid.IntRange(-60, 60).Draw(t, "years"), 0, 0) },
			"restart": func(t *rapid.T) { must(t, g.s.Close()); g.open(t) },
			"reboot":  g.reboot,
			"unlock":  g.unlock,
		})
		must(t, g.s.Verify(context.Background()))
		must(t, g.s.Close())
		_ = os.RemoveAll(g.dir)
	})
}

// memory is a folder that is fast: these power cuts are copies of it, not lost writes.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "grattoir-people-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// game is the property's own account of what may happen, kept in real time.
type game struct {
	w       *world
	s       *Staff
	dir     string
	real    time.Duration
	guesses map[string]*guesses
	now     string // whose PIN is being tried
	cut     string // the step at which the power goes
	image   string // where the disk as of that cut was kept
	looked  bool
}

type guesses struct {
	n    int
	last time.Duration
}

func (g *game) of(id string) *guesses {
	if g.guesses[id] == nil {
		g.guesses[id] = &guesses{last: -time.Hour}
	}
	return g.guesses[id]
}

func (g *game) open(t *rapid.T) {
	opt := staffOptions(g.dir, g.w)
	opt.step = func(step string) {
		if step == "counted" {
			g.judge(t)
		}
		if step == g.cut {
			g.image = g.dir + "-" + step
			copyFiles(t, g.dir, g.image)
		}
	}
	s, err := Open(context.Background(), opt)
	must(t, err)
	g.s = s
}

// judge holds a PIN that is being looked at against the table.
func (g *game) judge(t *rapid.T) {
	g.looked = true
	subject := g.now
	if subject == "ghost" || subject == "spook" {
		subject = "unknown"
	}
	senior := subject == "anne" || subject == "tech"
	for _, id := range []string{subject, "all"} {
		c := g.of(id)
		if c.n >= Tries && !(id == "all" && senior) {
			t.Fatalf("%s: try %d was looked at", id, c.n+1)
		}
		if d := g.real - c.last; d < Delay(c.n) {
			t.Fatalf("%s: try %d was looked at %v after the one before, want %v", id, c.n+1, d, Delay(c.n))
		}
		c.n++
		c.last = g.real
	}
}

var gamePINs = map[string]string{"marie": clerkPIN, "07": clerkTwoPIN, "anne": managerPIN, "tech": technicianPIN}

func (g *game) try(t *rapid.T, right bool) {
	g.now = rapid.SampledFrom([]string{"marie", "marie", "marie", "07", "anne", "ghost", "spook"}).Draw(t, "who")
	g.cut = rapid.SampledFrom([]string{"", "", "", "counted", "answered"}).Draw(t, "cut")
	g.attempt(t, right)
}

func (g *game) attempt(t *rapid.T, right bool) {
	digits := rapid.SampledFrom([]string{wrongPIN, wrongPINTwo}).Draw(t, "digits")
	if real := gamePINs[g.now]; right && real != "" {
		digits = real
	}
	act := ActTraining
	var err error
	g.looked = false
	c := Credentials{g.now, PIN{digits}, false}
	if g.now == "marie" || g.now == "07" {
		if _, err = g.s.SignOn(context.Background(), c, 0, "EUR"); err == nil {
			_, err = g.s.SignOff(context.Background())
		}
	} else {
		_, err = g.s.Approve(context.Background(), act, "", c)
	}
	if g.looked && g.cut != "" {
		g.power(t)
	} else if err == nil {
		if !right {
			t.Fatal("a wrong PIN was taken")
		}
		delete(g.guesses, g.now)
		delete(g.guesses, "all")
		delete(g.guesses, "unknown")
	}
	g.cut = ""
}

// power goes: what the disk held at the cut is what there is.
func (g *game) power(t *rapid.T) {
	must(t, g.s.Close())
	_ = os.RemoveAll(g.dir)
	g.dir = g.image
	g.w.reboot()
	g.open(t)
}

// hammer guesses as fast as the terminal lets it.
func (g *game) hammer(t *rapid.T) {
	g.now = rapid.SampledFrom([]string{"marie", "07", "anne"}).Draw(t, "who")
	for range rapid.IntRange(1, 12).Draw(t, "times") {
		g.attempt(t, false)
		g.pass(rapid.SampledFrom([]time.Duration{0, 29 * time.Second, time.Minute, 15*time.Minute - 1, 15 * time.Minute}).Draw(t, "pause"))
	}
}

func (g *game) pass(d time.Duration) {
	g.w.pass(d)
	g.real += d
}

func (g *game) wait(t *rapid.T) {
	g.pass(time.Duration(rapid.Int64Range(0, int64(16*time.Minute)).Draw(t, "for")))
}

func (g *game) reboot(t *rapid.T) {
	must(t, g.s.Close())
	g.w.reboot()
	g.w.mono += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "up since")) // the daemon came up late: unproven, so it counts for nothing
	g.open(t)
}

func (g *game) unlock(t *rapid.T) {
	g.now, g.looked = "anne", false
	id := rapid.SampledFrom([]string{"marie", "07"}).Draw(t, "whom")
	if err := g.s.Unlock(context.Background(), Credentials{"anne", PIN{managerPIN}, false}, id); err == nil {
		delete(g.guesses, id)
		delete(g.guesses, "anne")
		delete(g.guesses, "all")
		delete(g.guesses, "unknown")
	}
}

// copyFiles copies the package's files from one folder to another, as a power cut leaves them.
func copyFiles(t interface{ Fatal(...any) }, from, to string) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"people.db", "people.db-wal", "people.db.lock", "register.db", "register.db-wal", "register.db.lock", "register.db.key"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
