package ledger

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
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func options(dir string) Options {
	return Options{Path: filepath.Join(dir, "ledger.db"), Terminal: "T-1", Moment: func() Moment {
		return Moment{Boot: "6f1d2c3b", Mono: 90061 * time.Millisecond, Device: noon}
	}}
}

func openTest(t testing.TB, opt Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func claim(t testing.TB, number int) validate.Claim {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "399", 123, uint16(number), fmt.Sprintf("%022d", 7000+number))
	if err != nil {
		t.Fatal(err)
	}
	return validate.Claim{ID: fmt.Sprintf("%032x", number+1), Ticket: validate.TicketKey{Block: validate.BlockID{0xab}, Pack: 123, Number: uint16(number)},
		Secret: code, Tier: 8, Amount: 2000, Currency: "EUR", OwnerEpoch: 3, Policy: "p1", Operator: "marie", Entered: validate.Scanned, FirstCheck: noon,
		Slip: validate.SlipFacts{Game: "Bingo", Emission: "1", BlockNumber: 1, GameCode: "00399", Pack: "0000123", Ticket: fmt.Sprintf("%03d", number), SecretTail: "07"}}
}

func record(t testing.TB, l *Ledger, c validate.Claim) validate.Receipt {
	t.Helper()
	r, err := l.Record(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lines(t testing.TB, l *Ledger) []string {
	t.Helper()
	var list []string
	if err := l.Lines(context.Background(), 1, 0, func(_ int64, line []byte) error { list = append(list, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEntryBytesOfVersion1 is the vector that every later version must still read: the
// exact bytes, and the hash that the next entry carries.
func TestEntryBytesOfVersion1(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 17))
	record(t, l, claim(t, 18))
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	const first = `{"v":1,"terminal":"T-1","epoch":1,"seq":1,"boot":"6f1d2c3b","mono_ms":90061,"time":"2026-11-30T12:00:00.123Z","trusted":"","kind":"claim",` +
		`"body":{"claim":"00000000000000000000000000000012","block":"ab000000000000000000000000000000","pack":123,"ticket":17,"round":0,"tier":8,"amount_minor":2000,` +
		`"currency":"EUR","owner_epoch":3,"policy":"p1","operator":"marie","entered":"scan","first_check":"2026-11-30T12:00:00.123Z","opening":""},"prev":"` + zeros + `"}`
	// sha256sum of the bytes of first, computed with coreutils.
	const hash = "58419acf6aed48966374ff1f9530890079768586a6ff1c600afd5123885703a8"
	got := lines(t, l)
	if got[0] != first {
		t.Errorf("entry 1 is\n%s\nwant\n%s", got[0], first)
	}
	if want := strings.Replace(strings.Replace(strings.Replace(strings.Replace(first, `"seq":1`, `"seq":2`, 1), `"prev":"`+zeros, `"prev":"`+hash, 1),
		`"ticket":17`, `"ticket":18`, 1), "0012\"", "0013\"", 1); got[1] != want {
		t.Errorf("entry 2 is\n%s\nwant\n%s", got[1], want)
	}
}

func TestSecondClaimOfATicketIsRefusedAndNamesTheFirst(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, options(dir))
	first := record(t, l, claim(t, 17))
	other := claim(t, 17)
	other.ID = strings.Repeat("f", 32)
	for range 2 {
		r, err := l.Record(context.Background(), other)
		if !errors.Is(err, ErrPaid) || r.Number != first.Number || r.ID != first.ID {
			t.Fatalf("%v %v", r, err)
		}
		if err := l.Close(); err != nil { // the second time after a restart
			t.Fatal(err)
		}
		l = openTest(t, options(dir))
	}
	if n := len(lines(t, l)); n != 1 {
		t.Fatalf("%d entries", n)
	}
}

func TestSameClaimIDGetsItsFirstReceiptAgain(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	a, b := record(t, l, claim(t, 17)), record(t, l, claim(t, 17))
	if a.Number != b.Number || len(lines(t, l)) != 1 {
		t.Fatalf("%v and %v", a.Number, b.Number)
	}
}

func TestTicketIsPaidOnceUnderConcurrentClaims(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	var paid, refused int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 64 {
		c := claim(t, i%8)
		c.ID = fmt.Sprintf("%032x", 1000+i)
		all.Go(func() {
			_, err := l.Record(context.Background(), c)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				paid++
			case errors.Is(err, ErrPaid):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if paid != 8 || refused != 56 {
		t.Fatalf("%d paid, %d refused", paid, refused)
	}
	if c, err := l.Verify(context.Background()); err != nil || c.Claims != 8 || c.Money != 16000 {
		t.Fatalf("%+v %v", c, err)
	}
}

func TestAllowanceBoundsUnsentClaimsAndMoneyAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	opt := options(dir)
	opt.Allowance = Allowance{Claims: 3, Money: 5000}
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	record(t, l, claim(t, 2))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	if _, err := l.Record(context.Background(), claim(t, 3)); !errors.Is(err, ErrAllowance) { // 6 000 > 5 000
		t.Fatal(err)
	}
	small := claim(t, 4)
	small.Amount = 1000
	record(t, l, small)
	small = claim(t, 5)
	small.Amount = 1
	if _, err := l.Record(context.Background(), small); !errors.Is(err, ErrAllowance) { // a fourth claim
		t.Fatal(err)
	}
	if u, err := l.Unsent(context.Background()); err != nil || u.Claims != 3 || u.Money != 5000 || !u.Oldest.Equal(noon.Truncate(time.Millisecond)) {
		t.Fatalf("%+v %v", u, err)
	}
}

func TestReceiptIsTheSameFromTheFile(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	want := record(t, l, claim(t, 17))
	got, err := l.Receipt(context.Background(), want.Number)
	if err != nil {
		t.Fatal(err)
	}
	want.Secret = ticket.Code{}
	want.FirstCheck = want.FirstCheck.Truncate(time.Millisecond)
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	waiting, err := l.Unprinted(context.Background())
	if err != nil || len(waiting) != 1 || fmt.Sprintf("%+v", waiting[0]) != fmt.Sprintf("%+v", got) {
		t.Errorf("waiting for paper %v: %+v\nwant %+v", err, waiting, got)
	}
}

// TestReceiptCarriesTheHashOfItsEntry: the one that the next entry and the head name,
// not that of whatever came last.
func TestReceiptCarriesTheHashOfItsEntry(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	first := record(t, l, claim(t, 17))
	if want := l.Head().Hash.String(); first.Hash != want {
		t.Errorf("recorded with the hash %q, the head has %s", first.Hash, want)
	}
	if second := record(t, l, claim(t, 18)); second.Hash != l.Head().Hash.String() {
		t.Errorf("the second has %q, the head %v", second.Hash, l.Head().Hash)
	}
	again := record(t, l, claim(t, 17))
	copied, err := l.AppendReprint(ctx, first.Number, "marie", "")
	if err != nil {
		t.Fatal(err)
	}
	paid, err := l.Paid(ctx, first.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]validate.Receipt{"recorded again": again, "copied": copied, "asked": *paid} {
		if r.Hash != first.Hash {
			t.Errorf("%s: %q, want %q", name, r.Hash, first.Hash)
		}
	}
	if e := lines(t, l); hashLine([]byte(e[0])).String() != first.Hash {
		t.Error("it is not the hash of the entry's line")
	}
}

func TestPrintMarksMoveForwardOnly(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	r := record(t, l, claim(t, 17))
	if list, err := l.Unprinted(ctx); err != nil || len(list) != 1 || list[0].Copies != 1 {
		t.Fatalf("%v %v", list, err)
	}
	if err := l.Mark(ctx, r.Number, validate.Printed); err != nil {
		t.Fatal(err)
	}
	if err := l.Mark(ctx, r.Number, validate.Held); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a printed slip became held: %v", err)
	}
	copy2, err := l.BeginCopy(ctx, r.Number)
	if err != nil || copy2.Copies != 2 || copy2.Print != validate.Sending {
		t.Fatalf("%+v %v", copy2, err)
	}
	if head := l.Head(); head.Seq != 2 {
		t.Fatalf("the chain ends at %d: a copy is an entry, a mark is none", head.Seq)
	}
}

func TestFailedSecretsAreCountedAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	key := claim(t, 17).Ticket
	for want := 1; want <= validate.MaxAttempts; want++ {
		l := openTest(t, options(dir))
		if n, err := l.Failed(context.Background(), key); err != nil || n != want {
			t.Fatalf("%d %v", n, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyFindsEveryChangeInTheMiddle(t *testing.T) {
	ctx := context.Background()
	for name, sabotage := range map[string]string{
		"an amount changed":    `UPDATE entries SET line = CAST(replace(CAST(line AS TEXT), '"amount_minor":2000', '"amount_minor":9000') AS BLOB) WHERE seq = 2`,
		"an entry removed":     `DELETE FROM entries WHERE seq = 2`,
		"a claim removed":      `DELETE FROM claims WHERE seq = 2`,
		"a claim of another":   `UPDATE claims SET ticket = 999 WHERE seq = 2`,
		"a job's amount":       `UPDATE prints SET amount = 1 WHERE seq = 2`,
		"a print job removed":  `DELETE FROM prints WHERE seq = 2`,
		"copies set back":      `UPDATE prints SET copies = 0 WHERE seq = 2`,
		"a slip's ticket":      `UPDATE prints SET slip = CAST(replace(CAST(slip AS TEXT), '"ticket":"001"', '"ticket":"009"') AS BLOB) WHERE seq = 2`,
		"a stored hash":        `UPDATE entries SET hash = x'00' WHERE seq = 2`,
		"a stored kind":        `UPDATE entries SET kind = 'other' WHERE seq = 2`,
		"a claim added":        `INSERT INTO claims VALUES(x'ab000000000000000000000000000000', 123, 999, 0, 1, 2)`,
		"a mark above the end": `UPDATE acks SET seq = 9`,
		"a mark of no epoch":   `INSERT INTO acks(epoch, seq) VALUES(9, 9)`,
		"a head of no epoch":   `INSERT INTO heads VALUES(9, 1, x'58419acf6aed48966374ff1f9530890079768586a6ff1c600afd5123885703a8', x'00', 'stop')`,
		"a head past the end":  `INSERT INTO heads VALUES(1, 9, x'58419acf6aed48966374ff1f9530890079768586a6ff1c600afd5123885703a8', x'00', 'stop')`,
		"a print job added":    `INSERT INTO prints VALUES(1, 9, 'printed', 1, 2000, x'7b7d')`,
		"a claim of no epoch":  `INSERT INTO claims VALUES(x'ab000000000000000000000000000000', 123, 999, 0, 9, 2)`,
		"two claims swapped":   `UPDATE claims SET seq = 5 - seq WHERE seq IN (2, 3)`,
		"two entries swapped":  `UPDATE entries SET line = (SELECT line FROM entries f WHERE f.seq = 5 - entries.seq) WHERE seq IN (2, 3)`,
	} {
		dir := t.TempDir()
		l := openTest(t, options(dir))
		for i := range 4 {
			record(t, l, claim(t, i))
		}
		if _, err := l.Verify(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite3", options(dir).Path)
		if err != nil {
			t.Fatal(err)
		}
		sabotageTables(t, db, sabotage)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		l = openTest(t, options(dir))
		if _, err := l.Verify(ctx); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVerifyFindsAnEntryRewrittenWithItsHash: the entry after it carries the old one.
func TestVerifyFindsAnEntryRewrittenWithItsHash(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for i := range 3 {
		record(t, l, claim(t, i))
	}
	line := []byte(strings.Replace(lines(t, l)[1], `"operator":"marie"`, `"operator":"jeanne"`, 1))
	hash := hashLine(line)
	sabotageTables(t, l.db, "UPDATE entries SET line = ?, hash = ? WHERE seq = 2", line, hash[:])
	if _, err := l.Verify(context.Background()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "1-3") {
		t.Error(err)
	}
}

// sabotageTables changes what the triggers guard, and puts them back as they were.
func sabotageTables(t testing.TB, db *sql.DB, sabotage string, args ...any) {
	t.Helper()
	guards := map[string]string{}
	rows, err := db.Query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		guards[name] = text
	}
	if err := rows.Err(); err != nil || len(guards) == 0 {
		t.Fatalf("%d triggers: %v", len(guards), err)
	}
	run := func(q string, args ...any) {
		t.Helper()
		if _, err := db.Exec(q, args...); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for name := range guards {
		run("DROP TRIGGER " + name)
	}
	run(sabotage, args...)
	for _, text := range guards {
		run(text)
	}
}

// TestLedgerThatIsGoneIsNotTakenForAFirstStart: an emptied file would make every paid
// ticket win again.
func TestLedgerThatIsGoneIsNotTakenForAFirstStart(t *testing.T) {
	for name, lose := range map[string]func(path string) error{"removed": os.Remove, "emptied": func(p string) error { return os.Truncate(p, 0) }} {
		opt := options(t.TempDir())
		l := openTest(t, opt)
		record(t, l, claim(t, 1))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := lose(opt.Path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), opt); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), opt.Path+".lock") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadersSeeWhatIsCommittedAndCannotWrite(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	r := record(t, l, claim(t, 1))
	if _, err := l.read.Exec("INSERT INTO acks(epoch, seq) VALUES(9, 9)"); err == nil {
		t.Error("a reading connection wrote")
	}
	if got, err := l.Receipt(context.Background(), r.Number); err != nil || got.ID != r.ID {
		t.Errorf("%v %v", got, err)
	}
}

func TestClockGoneWildLeavesTheEntryReadable(t *testing.T) {
	opt := options(t.TempDir())
	opt.Moment = func() Moment { return Moment{Boot: "b", Device: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)} }
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	if list, err := l.Unprinted(context.Background()); err != nil || len(list) != 1 || !list[0].At.IsZero() {
		t.Fatalf("%v %v", list, err)
	}
}

func TestEntriesCannotBeChangedThroughSQL(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	for _, q := range []string{"UPDATE entries SET line = x''", "DELETE FROM entries", "UPDATE claims SET seq = 1", "DELETE FROM claims"} {
		if _, err := l.db.Exec(q); err == nil || !strings.Contains(err.Error(), "never") {
			t.Errorf("%s: %v", q, err)
		}
	}
}

func TestOpenRefusesWhatIsNotThisTerminalsLedger(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, options(dir))
	if _, err := Open(context.Background(), options(dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := options(dir)
	other.Terminal = "T-2"
	if _, err := Open(context.Background(), other); err == nil || !strings.Contains(err.Error(), `"T-1"`) {
		t.Errorf("another terminal: %v", err)
	}
	junk := options(t.TempDir())
	if err := os.WriteFile(junk.Path, []byte(strings.Repeat("not a database ", 400)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), junk); err == nil {
		t.Error("opened a text file")
	}
}

// TestClosedLedgerIsFreeWhileAChildIsBeingStarted: between fork and exec a child has
// every descriptor of its parent, and with it the lock.
func TestClosedLedgerIsFreeWhileAChildIsBeingStarted(t *testing.T) {
	opt := options(t.TempDir())
	child := func(f *os.File) {
		t.Helper()
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	l := openTest(t, opt)
	child(l.lock.f)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	i := inspected(t, opt.Path, InPlace)
	child(i.lock)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, opt)
}

func TestNothingIsPaidBelowTheDiskReserve(t *testing.T) {
	opt := options(t.TempDir())
	opt.Reserve = 1 << 62
	l := openTest(t, opt)
	if err := l.Writable(); !errors.Is(err, ErrNotWritable) {
		t.Fatal(err)
	}
}

func TestOpeningProvesTheSecretToCentralAndToNobodyElse(t *testing.T) {
	secret, public, err := GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t.TempDir())
	if opt.ClaimKey, err = ParseClaimKey(public); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, opt)
	c := claim(t, 17)
	record(t, l, c)
	line := lines(t, l)[0]
	if strings.Contains(line, c.Secret.Secret()) {
		t.Fatal("the journal holds the secret in clear")
	}
	e, err := ParseEntry([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	body, err := e.Claim()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseClaimSecretKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := body.OpeningBytes()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.Open(c.ID, c.Ticket, 0, sealed); err != nil || got != c.Secret.Secret() {
		t.Fatalf("central cannot open it: %v", err)
	}
	if _, err := key.Open(strings.Repeat("e", 32), c.Ticket, 0, sealed); err == nil {
		t.Error("it serves another claim too")
	}
	strange, _, err := GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	if key, err = ParseClaimSecretKey(strange); err != nil {
		t.Fatal(err)
	}
	if _, err := key.Open(c.ID, c.Ticket, 0, sealed); err == nil {
		t.Error("another key opens it")
	}
}

// TestPreparedOpeningServesItsOwnClaimAlone: one sealed for another id, round, ticket or code
// would open nothing at central, and the payment would stand as unproven.
func TestPreparedOpeningServesItsOwnClaimAlone(t *testing.T) {
	secret, public, err := GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	key := must(ParseClaimSecretKey(secret))
	opt := options(t.TempDir())
	opt.ClaimKey = must(ParseClaimKey(public))
	l := openTest(t, opt)
	c := claim(t, 17)
	for name, change := range map[string]func(*validate.Claim){"the same": func(*validate.Claim) {}, "id": func(c *validate.Claim) { c.ID = strings.Repeat("e", 32) },
		"round": func(c *validate.Claim) { c.Round = 1 }, "ticket": func(c *validate.Claim) { c.Ticket.Number++ },
		"code": func(c *validate.Claim) { c.Secret = claim(t, 18).Secret }} {
		t.Run(name, func(t *testing.T) {
			l.Prepare(c)
			before := l.prepared.list[len(l.prepared.list)-1].sealed
			other := c
			change(&other)
			sealed, err := l.opening(other)
			if err != nil || bytes.Equal(sealed, before) != (name == "the same") {
				t.Fatalf("taken: %v, %v", bytes.Equal(sealed, before), err)
			}
			if got, err := key.Open(other.ID, other.Ticket, other.Round, sealed); err != nil || got != other.Secret.Secret() {
				t.Error("it does not open:", err)
			}
			if again := must(l.opening(other)); bytes.Equal(again, sealed) {
				t.Error("one opening served twice")
			}
		})
	}
	for n := range 30 {
		l.Prepare(claim(t, 100+n))
	}
	if n := len(l.prepared.list); n != maxPrepared {
		t.Errorf("%d openings are kept", n)
	}
}

// TestKilledWriterLosesNothingItAcknowledged kills a process that records claims as
// fast as it can, again and again: each claim it named is in the file, and the chain is whole.
func TestKilledWriterLosesNothingItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	if os.Getenv("GRATTOIR_LEDGER_CHILD") != "" {
		childRecords(t, os.Getenv("GRATTOIR_LEDGER_CHILD"))
		return
	}
	next := 0
	for round := range 8 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLosesNothingItAcknowledged$")
		child.Env = append(os.Environ(), fmt.Sprintf("GRATTOIR_LEDGER_CHILD=%s %d", dir, next))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		scan := bufio.NewScanner(out)
		acked := 0
		for acked < 5+round*7 && scan.Scan() {
			if n, err := fmt.Sscanf(scan.Text(), "acked %d", &next); n == 1 && err == nil {
				acked++
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for scan.Scan() { // what it named before the signal reached it
			_, _ = fmt.Sscanf(scan.Text(), "acked %d", &next)
		}
		_ = child.Wait()
		l := openTest(t, options(dir))
		c, err := l.Verify(context.Background())
		if err != nil || c.Claims < int64(next) || c.Claims > int64(next)+1 {
			t.Fatalf("round %d: %d acknowledged, %+v: %v", round, next, c, err)
		}
		next = int(c.Claims)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func childRecords(t *testing.T, arg string) {
	var dir string
	var next int
	if _, err := fmt.Sscanf(arg, "%s %d", &dir, &next); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, options(dir))
	for ; ; next++ {
		c := claim(t, next%1000)
		c.Amount = money.Amount(next + 1)
		c.Ticket.Pack += uint32(next / 1000)
		c.ID = fmt.Sprintf("%032x", next+1)
		record(t, l, c)
		fmt.Printf("acked %d\n", next+1)
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(`{"v":1,"terminal":"T-1","epoch":1,"seq":1,"boot":"b","mono_ms":1,"time":"","trusted":"","kind":"claim","body":{},"prev":""}`))
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte(`{"v":1,"v":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := ParseEntry(line)
		if err != nil {
			return
		}
		if again, err := e.encode(); err != nil || string(again) != string(line) {
			t.Fatal("accepted, but encodes to other bytes")
		}
	})
}
