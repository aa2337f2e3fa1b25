package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"grattoir/validate"
)

func inspected(t testing.TB, path string, want Access) *Inspection {
	t.Helper()
	i, err := Inspect(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	if i.Access != want {
		t.Fatalf("reached %s, want %s", i.Access, want)
	}
	return i
}

// folder is every file of a folder, with what is in it and when it was written.
func folder(t testing.TB, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range list {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %x %v\n", f.Name(), len(raw), sha256.Sum256(raw), info.ModTime())
	}
	return b.String()
}

// privateCopies are those that lie about; TMPDIR is the test's own.
func privateCopies(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.TempDir(), "grattoir-inspect-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// looks holds an inspection against an aged ledger of so many claims; from version 3 on the
// copy of one's slip is an entry too.
func looks(t testing.TB, i *Inspection, claims int) {
	t.Helper()
	ctx := context.Background()
	entries := int(i.Head().Seq)
	if i.Terminal() != "T-1" || entries != claims && entries != claims+1 {
		t.Errorf("terminal %q, head %+v", i.Terminal(), i.Head())
	}
	c, err := i.Verify(ctx)
	if err != nil || c.Head != i.Head() || c.Claims != int64(claims) {
		t.Errorf("%+v %v", c, err)
	}
	var n int
	if err := i.Lines(ctx, 1, 1, func(int64, []byte) error { n++; return nil }); err != nil || n != entries {
		t.Errorf("%d lines: %v", n, err)
	}
	r, err := i.Receipt(ctx, validate.EntryNumber{Epoch: 1, Seq: 6})
	if err != nil || r.Print != validate.Printed || r.Slip.Game != "Bingo" {
		t.Errorf("%+v %v", r, err)
	}
	if last, err := i.Last(ctx, 10); err != nil || len(last) != min(claims, 10) {
		t.Errorf("%d receipts: %v", len(last), err)
	}
}

func TestInspectionOfAStoppedLedgerReadsItInPlaceAndWritesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	opt := options(t.TempDir())
	l := openTest(t, opt)
	age(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := folder(t, filepath.Dir(opt.Path))
	for _, lock := range []bool{true, false} { // a copy may have no lock file
		i := inspected(t, opt.Path, InPlace)
		looks(t, i, len(aged))
		if lock {
			if _, err := Open(context.Background(), opt); !errors.Is(err, ErrLocked) {
				t.Errorf("a program opened it meanwhile: %v", err)
			}
		}
		second := inspected(t, opt.Path, InPlace) // two may look
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		if after := folder(t, filepath.Dir(opt.Path)); after != before || len(privateCopies(t)) != 0 {
			t.Errorf("was\n%sis\n%s", before, after)
		}
		if err := os.Remove(opt.Path + ".lock"); lock && err != nil {
			t.Fatal(err)
		}
		before = folder(t, filepath.Dir(opt.Path))
	}
}

func TestInspectionOfEarlierVersionsCarriesNothingForward(t *testing.T) {
	for version := 1; version < len(migrations); version++ {
		opt := old(t, version)
		before := folder(t, filepath.Dir(opt.Path))
		i := inspected(t, opt.Path, InPlace)
		looks(t, i, len(aged))
		if p, err := i.Prove(context.Background(), Keys{}); err != nil || p.Epochs[0].Central.Seq != agedAcked {
			t.Errorf("%+v %v", p, err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		if after := folder(t, filepath.Dir(opt.Path)); after != before {
			t.Errorf("was\n%sis\n%s", before, after)
		}
	}
}

// TestInspectionOfARunningLedgerDisturbsNothing: claims go on while somebody looks, and
// what he looks at stands still.
func TestInspectionOfARunningLedgerDisturbsNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx := context.Background()
	opt := options(t.TempDir())
	l := openTest(t, opt)
	age(t, l)
	before, err := os.ReadDir(filepath.Dir(opt.Path))
	if err != nil {
		t.Fatal(err)
	}
	i := inspected(t, opt.Path, Live)
	for n := range 90 {
		record(t, l, claim(t, 100+n))
	}
	looks(t, i, len(aged))
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := l.Verify(ctx); err != nil || c.Entries != int64(len(aged))+1+90 {
		t.Errorf("%+v %v", c, err)
	}
	after, err := os.ReadDir(filepath.Dir(opt.Path))
	if err != nil || len(after) != len(before) || len(privateCopies(t)) != 0 {
		t.Errorf("was %v is %v, %v", before, after, privateCopies(t))
	}
	looks(t, inspected(t, opt.Path, Live), len(aged)+90)
}

// cutOff leaves a ledger as a cut does: its newest entries are in the log only.
func cutOff(t testing.TB) (path string) {
	t.Helper()
	opt := options(t.TempDir())
	l := openTest(t, opt)
	age(t, l)
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal", ".lock"} {
		raw, err := os.ReadFile(opt.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ledger.db"+suffix), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "ledger.db")
}

// TestInspectionAfterACutSeesWhatIsInTheLogOnly, and leaves both as they are.
func TestInspectionAfterACutSeesWhatIsInTheLogOnly(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := cutOff(t)
	before := folder(t, filepath.Dir(path))
	i := inspected(t, path, WithLog)
	looks(t, i, len(aged))
	if len(privateCopies(t)) != 1 {
		t.Error("no private copy")
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if after := folder(t, filepath.Dir(path)); after != before || len(privateCopies(t)) != 0 {
		t.Errorf("was\n%sis\n%s", before, after)
	}
	t.Setenv("TMPDIR", "/nowhere")
	if _, err := Inspect(context.Background(), path); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Error(err)
	}
}

// TestInspectionReadsAMediumThatCannotBeWritten, in every state that a ledger is found
// in. A child mounts the folder read-only where it alone sees it.
func TestInspectionReadsAMediumThatCannotBeWritten(t *testing.T) {
	if dir := os.Getenv("GRATTOIR_READ_ONLY"); dir != "" {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Fatalf("it can be written: %v", err)
		}
		looks(t, inspected(t, filepath.Join(dir, "ledger.db"), Access(os.Getenv("GRATTOIR_ACCESS"))), len(aged))
		return
	}
	stopped := old(t, 1).Path
	for access, path := range map[Access]string{InPlace: stopped, WithLog: cutOff(t)} {
		child := exec.Command(os.Args[0], "-test.run=^TestInspectionReadsAMediumThatCannotBeWritten$")
		child.Env = append(os.Environ(), "GRATTOIR_READ_ONLY="+filepath.Dir(path), "GRATTOIR_ACCESS="+string(access))
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		out, err := child.CombinedOutput()
		if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
			t.Skip("NOT TESTED: this system lets no user make a mount namespace")
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", access, err, out)
		}
	}
}

func TestInspectionRefusesWhatIsNoLedger(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	empty, text, foreign, newer := filepath.Join(dir, "empty"), filepath.Join(dir, "text"), filepath.Join(dir, "foreign"), filepath.Join(dir, "newer")
	for path, content := range map[string]string{empty: "", text: strings.Repeat("no database ", 400)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, q := range map[string]string{foreign: "CREATE TABLE t(x)", newer: fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 999", applicationID)} {
		db, err := sql.Open("sqlite3", path)
		if err != nil {
			t.Fatal(err)
		}
		run(t, db, q)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	before := folder(t, dir)
	for path, want := range map[string]string{empty: "no ledger", text: "no ledger", foreign: "not a ledger", newer: "newer program", filepath.Join(dir, "none"): "no such file"} {
		if _, err := Inspect(ctx, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if after := folder(t, dir); after != before {
		t.Errorf("was\n%sis\n%s", before, after)
	}
}

// TestInspectionShowsDamageAsItIs: a page that is broken is found, in place and in a copy
// of a running program's.
func TestInspectionShowsDamageAsItIs(t *testing.T) {
	opt := options(t.TempDir())
	l := openTest(t, opt)
	for n := range 200 {
		record(t, l, claim(t, n))
	}
	l = reopen(t, l) // all of it is in the file, the log is empty
	raw, err := os.ReadFile(opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(opt.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(raw, []byte(`"operator":"marie"`), []byte(`"operator":"jeann"`))
	if _, err := f.WriteAt(changed, 0); err != nil {
		t.Fatal(err)
	}
	// The descriptor stays open: closing it would drop SQLite's locks in this process.
	t.Cleanup(func() { _ = f.Close() })
	for _, access := range []Access{Live, InPlace} {
		if _, err := inspected(t, opt.Path, access).Verify(context.Background()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", access, err)
		}
		if access == Live {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
