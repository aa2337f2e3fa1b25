package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/mattn/go-sqlite3"

	"grattoir/device/control"
	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// Faults under and around the ledger, on the real program and real file systems. Each ends
// in a named condition: clerk's words, and a technician's twin with a code. Nothing that
// was committed is lost, and nothing is paid twice.

// mount is a file system of its own under a shop's data folder, small enough to be filled,
// in a namespace that ends with the test. No rights are needed for it.
type mount struct {
	shop   *shop
	holder *exec.Cmd // lives in the namespace, and keeps it
	stdin  io.Closer
}

func mountSmall(t *testing.T, s *shop, megabytes int) *mount {
	t.Helper()
	data := filepath.Join(s.Dir, "data")
	script := fmt.Sprintf(`set -e; mkdir "$1.small"; mount -t tmpfs -o size=%dm,mode=0700 small "$1.small"; cp -a "$1/." "$1.small/"; mount --bind "$1.small" "$1"; echo mounted; exec cat`, megabytes)
	m := &mount{shop: s, holder: exec.Command("unshare", "-Urm", "sh", "-c", script, "sh", data)}
	m.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	m.holder.Stderr = &complaint
	out, err := m.holder.StdoutPipe()
	if err == nil {
		m.stdin, err = m.holder.StdinPipe()
	}
	if err == nil {
		err = m.holder.Start()
	}
	if err != nil {
		noNamespace(t, err)
	}
	said := make([]byte, len("mounted\n"))
	if _, err := io.ReadFull(out, said); err != nil {
		_ = m.holder.Wait() // its complaint says more
		noNamespace(t, fmt.Errorf("%w: %s", err, complaint.String()))
	}
	t.Cleanup(func() {
		s.Crash()
		_ = m.stdin.Close()
		_ = m.holder.Wait()
	})
	s.Within = m.enter()
	return m
}

// noNamespace is met where a machine forbids user namespaces. On a laptop that is no
// fault of the program; where CI runs it would leave promises untested.
func noNamespace(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("no file system of its own can be mounted (unshare -Urm): %v", err)
	}
	t.Skipf("NOT TESTED: no file system of its own can be mounted (unshare -Urm): %v", err)
}

// enter is the command that runs another in the namespace.
func (m *mount) enter() []string {
	return []string{"nsenter", "-t", strconv.Itoa(m.holder.Process.Pid), "-U", "-m", "--preserve-credentials", "--wd=" + m.shop.Dir}
}

// path is a file of the data folder, as the whole machine sees it.
func (m *mount) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.holder.Process.Pid), "root", m.shop.Dir, "data", name)
}

// fill leaves about so many bytes free.
func (m *mount) fill(t *testing.T, leave int64) {
	t.Helper()
	f, err := os.OpenFile(m.path("filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var at unix.Statfs_t
		if err := unix.Statfs(m.path(""), &at); err != nil {
			t.Fatal(err)
		}
		n := min(int64(at.Bavail)*int64(at.Bsize)-leave, 1<<20)
		if n <= 0 {
			return
		}
		if _, err := f.Write(make([]byte, n)); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func (m *mount) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(m.path("filler")); err != nil {
		t.Fatal(err)
	}
}

func (m *mount) remount(t *testing.T, how string) {
	t.Helper()
	for _, at := range []string{"data", "data.small"} {
		run := append(m.enter(), "mount", "-o", "remount,"+how, filepath.Join(m.shop.Dir, at))
		if out, err := exec.Command(run[0], run[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// named waits until the status names a condition of the ledger, "" for none, and holds the
// words against what people are to read.
func (s *shop) named(t *testing.T, c health.Class) {
	t.Helper()
	want := ""
	if c != "" {
		want = health.Conditions()[c].Code
	}
	var got *control.Fault
	s.await(t, func(st control.Status) bool {
		got = st.Ledger
		return (got == nil) == (c == "") && (got == nil || got.Code == want)
	})
	if got != nil && (got.Clerk != health.Conditions()[c].ClerkFR || !strings.HasPrefix(got.Technician, health.Conditions()[c].Technician+" (")) {
		t.Errorf("%+v", got)
	}
}

// refuses shows a ticket that would win: it is checked, and not paid.
func (s *shop) refuses(t *testing.T, c ticket.Code) {
	t.Helper()
	a := s.again(t, c)
	if a.Verdict.Reason != validate.Winner {
		t.Errorf("checked: %s, %s", a.Verdict.Reason, a.Detail)
	}
	if p := s.pay(t, a); p.Receipt != nil || p.Verdict.Reason != validate.LedgerNotWritable || p.Detail == "" {
		t.Errorf("paid all the same, or without a word: %+v", p)
	}
}

// pays pays a ticket once, and not again.
func (s *shop) pays(t *testing.T, c ticket.Code) {
	t.Helper()
	if p := s.pay(t, s.again(t, c)); p.Stage != terminal.Paid || p.Receipt == nil {
		t.Fatalf("not paid: %+v", p)
	}
	s.paid(t, c)
}

// paid shows a ticket that was paid: the check says so, and it is not paid again.
func (s *shop) paid(t *testing.T, c ticket.Code) {
	t.Helper()
	a := s.again(t, c)
	if a.Verdict.Reason != validate.AlreadyPaidHere {
		t.Errorf("paid before, checked now: %s, %s", a.Verdict.Reason, a.Detail)
	}
	if p := s.pay(t, a); p.Receipt != nil {
		t.Fatalf("paid again: %+v", p)
	}
}

func (s *shop) stop(t *testing.T) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskStopsPayingAndNothingElse fills a real file system: down to the reserve,
// checks, status, print marks and the journal go on, and central acknowledges; to the
// last byte, and over a restart, nothing breaks. With room again it pays on.
func TestFullDiskStopsPayingAndNothingElse(t *testing.T) {
	t.Parallel()
	l := openLinked(t)
	m := mountSmall(t, l.shop, 8)
	win := l.codes["2000"]
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	l.pays(t, win[0])
	if err := l.central.Kill(); err != nil {
		t.Fatal(err)
	}
	l.pays(t, win[1])
	l.settled(t)

	m.fill(t, 700<<10) // reserve_mb is 1
	l.named(t, health.LedgerFull)
	l.refuses(t, win[2])
	l.paid(t, win[1])
	if err := l.central.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 && st.Unsent.Claims == 0 })

	m.fill(t, 0)
	l.named(t, health.LedgerFull)
	l.refuses(t, win[2])
	l.paid(t, win[0])
	m.free(t)
	l.named(t, "")
	l.pays(t, win[2]) // without a restart

	m.fill(t, 0)
	if err := l.Stop(); err != nil {
		t.Logf("a stop on a full disk: %v", err)
	}
	l.start(t)
	l.named(t, health.LedgerFull)
	l.refuses(t, win[3])
	l.paid(t, win[2])
	m.free(t)
	l.stop(t)
	l.start(t)
	l.named(t, "")
	l.pays(t, win[3])
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 && st.Unsent.Claims == 0 })
	l.settled(t)
	l.stop(t)
	if err := l.central.Stop(); err != nil {
		t.Fatal(err)
	}
	m.bringOut(t)
	l.compare(t)
	if c := l.journal(t); c.Claims != 4 || c.Money != 8000 {
		t.Errorf("%+v", c)
	}
}

// bringOut copies the ledger to where the test can open it.
func (m *mount) bringOut(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ledger.db", "ledger.db.lock"} {
		text, err := os.ReadFile(m.path(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(m.shop.Dir, "data", name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(m.path("ledger.db-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the program was not stopped: %v", err)
	}
}

// TestReadOnlyDiskStopsPayingAndTicketsAreChecked starts on a file system that has become
// read-only, after an orderly stop and after a kill that left the newest payment in the
// write-ahead log.
func TestReadOnlyDiskStopsPayingAndTicketsAreChecked(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			s := openShop(t)
			m := mountSmall(t, s, 8)
			win := s.codes["2000"]
			s.start(t)
			s.pays(t, win[0])
			s.printed(t)
			if killed {
				s.Crash()
				// The dead program's lock on a pseudo terminal binds whoever is not root outside.
				if err := errors.Join(s.Glass.Unplug(), s.Glass.Replug(), s.Paper.Unplug(), s.Paper.Replug()); err != nil {
					t.Fatal(err)
				}
			} else {
				s.stop(t)
			}
			m.remount(t, "ro")
			s.start(t)
			s.named(t, health.LedgerReadOnly)
			s.refuses(t, win[1])
			s.paid(t, win[0])
			if a := s.scan(t, s.codes["0"][0]); a.Verdict.Reason != validate.NotAWinner {
				t.Errorf("a loser: %s", a.Verdict.Reason)
			}
			s.stop(t)
			m.remount(t, "rw")
			s.start(t)
			s.named(t, "")
			s.paid(t, win[0])
			s.pays(t, win[1])
			s.printed(t)
			s.stop(t)
			m.bringOut(t)
			if c := s.journal(t); c.Claims != 2 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestReadOnlyDiskLeavesOperatorsACounterThatChecks is the same where operators sign on:
// their file cannot be opened either.
func TestReadOnlyDiskLeavesOperatorsACounterThatChecks(t *testing.T) {
	t.Parallel()
	s, _ := staffed(t)
	m := mountSmall(t, s, 8)
	ctx := deadline(t)
	s.start(t)
	if _, err := s.Client.SignOn(ctx, "anne", "4718", 0); err != nil {
		t.Fatal(err)
	}
	s.pays(t, s.codes["2000"][0])
	s.printed(t)
	s.stop(t)
	m.remount(t, "ro")
	s.start(t)
	s.named(t, health.LedgerReadOnly)
	var denied *terminal.Denied
	if _, err := s.Client.SignOn(ctx, "anne", "4718", 0); !errors.As(err, &denied) || denied.Code != health.Conditions()[health.LedgerReadOnly].Code {
		t.Errorf("sign-on: %v", err)
	}
	for i, want := range []validate.Reason{validate.AlreadyPaidHere, validate.Winner} {
		a := s.again(t, s.codes["2000"][i])
		if a.Verdict.Reason != want {
			t.Errorf("checked: %s, %s", a.Verdict.Reason, a.Detail)
		}
		if p, err := s.Client.Pay(ctx, a.ID, true); p.Receipt != nil {
			t.Fatalf("paid by nobody: %+v %v", p, err)
		}
	}
	s.stop(t)
}

// page is where a table's or an index's tree begins in a ledger that nobody has open.
func page(t *testing.T, path, name string) int64 {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int64
	query := "SELECT rootpage FROM sqlite_schema WHERE name = ?"
	if name == "freelist" { // in the header: where the list of free pages begins
		head, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return int64(head[32])<<24 | int64(head[33])<<16 | int64(head[34])<<8 | int64(head[35])
	}
	if err := db.QueryRow(query, name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDamagedLedgerIsNamedAndPaysNothing damages the file of a stopped terminal in every
// kind of place. The program comes up, checks what it can, pays nothing, and says why;
// with the file put back it goes on, and no ticket is paid twice.
func TestDamagedLedgerIsNamedAndPaysNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	win := s.codes["2000"]
	s.start(t)
	s.pays(t, win[0])
	s.pays(t, win[1])
	s.printed(t)
	s.stop(t)
	path := filepath.Join(s.Dir, "data", "ledger.db")
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE waste(b BLOB); INSERT INTO waste VALUES(zeroblob(40000)); DROP TABLE waste"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(n int64) []byte {
		bad := bytes.Clone(whole)
		for i := (n - 1) * 4096; i < n*4096; i++ {
			bad[i] = 0xa5
		}
		return bad
	}
	free := page(t, path, "freelist")
	for _, c := range []struct {
		name    string
		bad     []byte
		class   health.Class // "" where the damage is to nothing
		checked validate.Reason
	}{
		{"first page", spoil(1), health.LedgerDamaged, validate.LedgerNotWritable},
		{"page of the entries", spoil(page(t, path, "entries")), health.LedgerDamaged, validate.Winner},
		{"page of the claims", spoil(page(t, path, "claims")), health.LedgerDamaged, validate.LedgerNotWritable},
		{"page of the slips", spoil(page(t, path, "prints")), health.LedgerDamaged, validate.Winner},
		{"page of the link", spoil(page(t, path, "link")), health.LedgerDamaged, validate.Winner},
		{"list of free pages", spoil(free), health.LedgerDamaged, validate.Winner},
		{"free page", spoil(int64(whole[(free-1)*4096+8])<<24 | int64(whole[(free-1)*4096+9])<<16 | int64(whole[(free-1)*4096+10])<<8 | int64(whole[(free-1)*4096+11])), "", ""},
		{"cut short", whole[:len(whole)/2], health.LedgerDamaged, ""},
		{"another file", []byte("this is no database, whatever it is called\n"), health.LedgerDamaged, validate.LedgerNotWritable},
		{"empty", nil, health.LedgerGone, validate.LedgerNotWritable},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(path, c.bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			s.named(t, c.class)
			switch a := s.again(t, win[2]); {
			case c.class == "": // a page that held nothing
				s.paid(t, win[0])
				s.stop(t)
				return
			case c.checked != "" && a.Verdict.Reason != c.checked:
				t.Errorf("checked: %s, %s; want %s", a.Verdict.Reason, a.Detail, c.checked)
			default:
				if p := s.pay(t, a); p.Receipt != nil {
					t.Fatalf("paid from a damaged ledger: %+v", p)
				}
			}
			for _, code := range win[:2] {
				if p := s.pay(t, s.again(t, code)); p.Receipt != nil {
					t.Fatalf("paid again: %+v", p)
				}
			}
			s.stop(t)
			if now, err := os.ReadFile(path); err != nil || len(c.bad) > 0 && !bytes.Equal(now, c.bad) {
				t.Errorf("the damaged file was changed: %v", err)
			}
		})
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.named(t, "")
	s.paid(t, win[0])
	s.paid(t, win[1])
	s.pays(t, win[2])
	s.stop(t)
	if c := s.journal(t); c.Claims != 3 || c.Money != 6000 {
		t.Errorf("%+v", c)
	}
}

// TestLedgerTakenAwayUnderTheRunningProgram: an entry written into a file that has no
// name any more would be gone at the next start.
func TestLedgerTakenAwayUnderTheRunningProgram(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.start(t)
	s.pays(t, s.codes["2000"][0])
	s.printed(t)
	path := filepath.Join(s.Dir, "data", "ledger.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	s.named(t, health.LedgerGone)
	s.refuses(t, s.codes["2000"][1])
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	s.named(t, "")
	s.pays(t, s.codes["2000"][1])
}

// TestTwoDaemonsStartedAtOnceAreOne starts two programs on one folder at the same moment,
// several times: one of them serves, the other ends and says why, and a ticket is paid
// once.
func TestTwoDaemonsStartedAtOnceAreOne(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		var words [2]bytes.Buffer
		var both [2]*exec.Cmd
		ended := make(chan int, 2)
		for i := range both {
			both[i] = exec.Command(path, "--config", filepath.Join(s.Dir, "terminald.toml"))
			both[i].Stderr = &words[i]
			both[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := both[i].Start(); err != nil {
				t.Fatal(err)
			}
			go func() { _ = both[i].Wait(); ended <- i }()
		}
		out := <-ended // a deadline of its own: the test's
		if code := both[out].ProcessState.ExitCode(); code != 1 || !strings.Contains(words[out].String(), "another process has the ledger open") {
			t.Fatalf("exit %d: %s", code, words[out].String())
		}
		s.await(t, func(st control.Status) bool { return st.Scanner == nil && st.Printer == nil && st.Ledger == nil })
		s.pays(t, s.codes["2000"][round])
		s.printed(t)
		if err := both[1-out].Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	if c := s.journal(t); c.Claims != 5 {
		t.Errorf("%+v", c)
	}
}

// TestNoClockStopsOrRepeatsAPayment pays with a clock at 1970, one 20 years ahead, and one
// that is set back by an hour between the check and the payment.
func TestNoClockStopsOrRepeatsAPayment(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	file := filepath.Join(s.Dir, "clock")
	set := func(d time.Duration) {
		if err := os.WriteFile(file+".new", []byte(strconv.FormatInt(int64(d.Seconds()), 10)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	clock := func(c health.Class) {
		t.Helper()
		var got *control.Fault
		s.await(t, func(st control.Status) bool {
			got = st.Clock
			return got != nil && got.Code == health.Conditions()[c].Code
		})
		if got.Clerk != health.Conditions()[c].ClerkFR || !strings.HasPrefix(got.Technician, health.Conditions()[c].Technician+" (") {
			t.Errorf("%+v", got)
		}
	}
	win := s.codes["2000"]
	for i, c := range []struct {
		class health.Class
		off   time.Duration
		year  string
	}{
		{health.ClockBehind, -time.Since(time.Unix(3600, 0)), "1970"},
		{health.ClockAhead, 20 * 365 * 24 * time.Hour, strconv.Itoa(time.Now().Year() + 20)},
	} {
		set(c.off)
		s.start(t, "GRATTOIR_CLOCK="+file)
		clock(c.class)
		s.named(t, "")
		s.pays(t, win[i])
		if r := s.printed(t); !strings.HasPrefix(r.At.UTC().Format(time.RFC3339), c.year) {
			t.Errorf("%v, want the clock's year %s", r.At, c.year)
		}
		s.stop(t)
	}
	set(0)
	s.start(t, "GRATTOIR_CLOCK="+file)
	s.await(t, func(st control.Status) bool { return st.Clock == nil })
	s.paid(t, win[0])
	s.paid(t, win[1])
	a := s.again(t, win[2])
	set(-time.Hour)
	if p := s.pay(t, a); p.Stage != terminal.Paid {
		t.Fatalf("%+v", p)
	}
	s.paid(t, win[2])
	clock(health.ClockStepped)
	s.pays(t, win[3])
	s.printed(t)
	s.stop(t)
	if c := s.journal(t); c.Claims != 4 || c.Money != 8000 {
		t.Errorf("%+v", c)
	}
}

// TestOperatorsWhoCannotBeReadStopPayingAndNothingElse damages the files beside the
// ledger: without the operators nobody signs on and nothing is paid, without the register
// nobody is identified; tickets are checked, and both have a code.
func TestOperatorsWhoCannotBeReadStopPayingAndNothingElse(t *testing.T) {
	t.Parallel()
	s, _ := staffed(t)
	ctx := deadline(t)
	s.start(t)
	if _, err := s.Client.SignOn(ctx, "anne", "4718", 0); err != nil {
		t.Fatal(err)
	}
	s.pays(t, s.codes["2000"][0])
	s.printed(t)
	s.stop(t)
	spoil := func(name string) (mend func()) {
		path := filepath.Join(s.Dir, "data", name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put := func(text []byte) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put(bytes.Repeat([]byte{0x5a}, len(whole)))
		return func() { put(whole) }
	}

	mend := spoil("people.db")
	s.start(t)
	want := people.Explain(people.ErrDamaged)
	s.await(t, func(st control.Status) bool {
		return st.Ledger != nil && st.Ledger.Code == want.Code && st.Ledger.Clerk == want.ClerkFR
	})
	var denied *terminal.Denied
	if _, err := s.Client.SignOn(ctx, "anne", "4718", 0); !errors.As(err, &denied) || denied.Code != want.Code {
		t.Errorf("sign-on: %v", err)
	}
	a := s.again(t, s.codes["2000"][1])
	if a.Verdict.Reason != validate.Winner {
		t.Errorf("checked: %s, %s", a.Verdict.Reason, a.Detail)
	}
	if p, err := s.Client.Pay(ctx, a.ID, true); p.Receipt != nil {
		t.Fatalf("paid by nobody: %+v %v", p, err)
	}
	s.stop(t)
	mend()

	mend = spoil("register.db")
	s.start(t)
	s.named(t, "")
	if err := s.Client.Unlock(ctx, "4718"); err != nil {
		t.Fatal(err)
	}
	s.pays(t, s.codes["2000"][1]) // no identity is asked for so little
	s.stop(t)
	mend()
	s.start(t)
	if err := s.Client.Unlock(ctx, "4718"); err != nil {
		t.Fatal(err)
	}
	s.paid(t, s.codes["2000"][0])
	s.pays(t, s.codes["2000"][2])
}

func TestEveryTroubleOfTheLedgerHasWordsOfItsOwn(t *testing.T) {
	codes := map[string]ledger.Trouble{}
	for _, trouble := range ledger.Troubles() {
		if _, known := health.Conditions()[health.Class(trouble)]; !known {
			t.Errorf("%s has no words", trouble)
		}
		f := health.Ledger(health.Class(trouble), nil)
		if other, taken := codes[f.Code]; taken {
			t.Errorf("%s and %s are both %s", trouble, other, f.Code)
		}
		codes[f.Code] = trouble
	}
}
