package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/sumdb/note"

	"grattoir/firmware/flash"
	"grattoir/firmware/update/raucfake"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// TestMain makes the test binary serve as terminalctl, so that scripts run the real
// command line.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"terminalctl": main}) }

// TestScripts runs terminalctl as its users do, on blocks that the real central sealed.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "grattoir/cmd/central", "grattoir/cmd/terminald").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Values[counterKey{}] = new(simulated)
			return nil
		},
		Condition: func(word string) (bool, error) {
			if word == "loop" {
				return loops(), nil
			}
			if word != "gpio" {
				return false, fmt.Errorf("unknown condition %q", word)
			}
			chips, err := filepath.Glob("/dev/gpiochip*")
			return len(chips) > 0, err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "flip": flip, "status": status, "paid": paid, "till": till, "signed": signed, "hold": hold, "payT1": payT1, "noted": noted, "cutaudit": cutAudit,
			"counter": openCounter, "enrolled": enrolled, "answers": answers, "device": device, "locked": locked, "files": files, "image": image,
			"centre": centre, "trusts": trusts, "hostname": hostname, "benched": benched, "mode": mode, "edit": edit, "loopcard": loopCard, "rauc": fakeRauc, "untouched": uncarded},
	})
}

// status N PROGRAM ARGS... runs a program that must end with exit status N, or with one of N|M.
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), fmt.Sprint(got)) {
		ts.Fatalf("exit status %d, want %s\n%s%s", got, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// code NAME PRIZE FILE [misread|forged|pack=N|ticket=N|game=N]... sets $NAME to the first code with the prize, changed.
func code(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[2]))
	ts.Check(err)
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		digits, prize, _ := strings.Cut(scan.Text(), ",")
		if prize == args[1] {
			changed, err := change(digits, args[3:])
			ts.Check(err)
			ts.Setenv(args[0], changed)
			return
		}
	}
	ts.Fatalf("no ticket with prize %s", args[1])
}

func change(digits string, how []string) (string, error) {
	c, err := ticket.Parse(digits, 0, ticket.Shipped())
	if err != nil {
		return "", err
	}
	game, pack, number, secret := c.Game, c.Pack, c.Number, c.Secret()
	for _, h := range how {
		var n uint32
		switch {
		case h == "misread":
			return digits[:30] + string('0'+(digits[30]-'0'+1)%10) + digits[31:], nil
		case h == "forged":
			secret = secret[:21] + string('0'+(secret[21]-'0'+1)%10)
		case scanf(h, "pack=%d", &n):
			pack = n
		case scanf(h, "ticket=%d", &n):
			number = uint16(n)
		case scanf(h, "game=%d", &n):
			game = fmt.Sprint(n)
		default:
			return "", fmt.Errorf("unknown change %q", h)
		}
	}
	c, err = ticket.Make(c.Layout, game, pack, number, secret)
	return c.Digits(), err
}

func scanf(text, format string, into *uint32) bool {
	n, err := fmt.Sscanf(text, format, into)
	return n == 1 && err == nil
}

// flip FILE BYTES... changes a bit of every byte of the file's runs that equal the text.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	at := strings.Index(string(text), args[1])
	if args[1] == "middle" {
		at = len(text) / 2
	}
	if at < 0 {
		ts.Fatalf("%s does not hold %q", filepath.Base(path), args[1])
	}
	text[at] ^= 1
	ts.Check(os.WriteFile(path, text, 0o600))
}

// files N PATTERN holds when so many files have such a name.
func files(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	list, err := filepath.Glob(ts.MkAbs(args[1]))
	if ts.Check(err); len(list) != n {
		ts.Fatalf("%d files %s: %v", len(list), args[1], list)
	}
}

// image KEY DIR makes a small image of 3 MiB, the last one a hole, signed with the key.
func image(ts *testscript.TestScript, _ bool, args []string) {
	secret, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	signer, err := note.NewSigner(strings.TrimSpace(string(secret)))
	ts.Check(err)
	raw := make([]byte, 3<<20)
	copy(raw[510:], "\x55\xaa")
	copy(raw[3<<19:], "a file system")
	release := flash.Release{Name: "grattoir-rpi", Version: "1.4.0", Board: "grattoir-rpi-arm64", Built: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	_, _, err = flash.Pack(context.Background(), bytes.NewReader(raw), ts.MkAbs(args[1]), release, signer)
	ts.Check(err)
}

// paid FILE N [close] makes the ledger of terminal T-1, or opens it, pays N more tickets,
// and closes the day, the month and the year.
func paid(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l, err := ledger.Open(context.Background(), ledger.Options{Path: ts.MkAbs(args[0]), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{Device: at} }})
	ts.Check(err)
	for range n {
		number := uint16(l.Head().Seq)
		_, err := l.Record(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", number+1), Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: 1, Number: number},
			Tier: 1, Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{Game: "Bingo", Pack: "0000001", Ticket: fmt.Sprintf("%03d", number)}})
		ts.Check(err)
	}
	for _, kind := range validate.ClosingKinds()[1:] {
		if len(args) > 2 {
			_, err := l.Z(context.Background(), kind, ledger.Ending{Operator: "marie"})
			ts.Check(err)
		}
	}
	ts.Check(l.Close())
}

// noted LEDGER PEOPLE closes a day in the ledger of terminal T-1, beside which the operators lie.
func noted(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	moment := func() ledger.Moment {
		return ledger.Moment{Boot: "b", Device: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	}
	staff, err := people.Open(ctx, people.Options{Path: ts.MkAbs(args[1]), Terminal: "T-1", Moment: moment})
	ts.Check(err)
	audits := func(ctx context.Context) []ledger.AuditHead {
		h, err := staff.AuditHead(ctx)
		ts.Check(err)
		return []ledger.AuditHead{h}
	}
	l, err := ledger.Open(ctx, ledger.Options{Path: ts.MkAbs(args[0]), Terminal: "T-1", Moment: moment, Audits: audits})
	ts.Check(err)
	_, err = l.Z(ctx, validate.DayClosing, ledger.Ending{Operator: "marie"})
	ts.Check(errors.Join(err, l.Close(), staff.Close()))
}

// cutAudit PEOPLE cuts the newest line off the audit, as who can write the file can.
func cutAudit(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec("DROP TRIGGER audit_kept; DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)")
	ts.Check(errors.Join(err, db.Close()))
}

// fakeRauc BUNDLE VERSION NUMBER writes a bundle of the board grattoir-virt, and the first
// time starts a machine that runs number 10, on a bus of its own, whose address is $BUS.
func fakeRauc(ts *testscript.TestScript, _ bool, args []string) {
	number, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), raucfake.Bundle{Board: "grattoir-virt", Version: args[1], Number: number, Padding: 3 << 20}.Bytes(), 0o644))
	if ts.Getenv("BUS") != "" {
		return
	}
	dir, err := os.MkdirTemp("", "bus") // a socket's path is at most 107 bytes
	ts.Check(err)
	address, stop, err := raucfake.Bus(dir)
	ts.Check(err)
	ts.Defer(func() { stop(); _ = os.RemoveAll(dir) })
	end, err := raucfake.New("grattoir-virt", "1.0.0", 10).Serve(address)
	ts.Check(err)
	ts.Defer(func() { _ = end() })
	ts.Setenv("BUS", address)
}
