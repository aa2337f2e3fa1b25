package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// ackAt is central's acknowledgement of an entry of the ledger.
func ackAt(t testing.TB, l *Ledger, seq int64, at time.Time) wire.Ack {
	t.Helper()
	p, err := l.PositionAt(context.Background(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Ack{Terminal: "T-1", Position: p, Time: at, AllowanceClaims: 100, AllowanceMinor: 1_000_000}
}

func acked(t testing.TB, l *Ledger) int64 {
	t.Helper()
	p, err := l.Acked(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p.Seq
}

func reopen(t testing.TB, l *Ledger) *Ledger {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return openTest(t, l.opt)
}

func TestAcknowledgementNeverMovesBackAndSurvivesARestart(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	for i := range 5 {
		record(t, l, claim(t, i))
	}
	for _, step := range []struct{ seq, want int64 }{{2, 2}, {4, 4}, {3, 4}, {0, 4}, {4, 4}} {
		if err := l.Ack(ctx, ackAt(t, l, step.seq, noon)); err != nil {
			t.Fatal(err)
		}
		if got := acked(t, l); got != step.want {
			t.Fatalf("after the acknowledgement of %d it stands at %d, want %d", step.seq, got, step.want)
		}
	}
	l = reopen(t, l)
	if u, err := l.Unsent(ctx); acked(t, l) != 4 || err != nil || u.Claims != 1 || u.Acked != 4 {
		t.Fatalf("after a restart: %d, %+v %v", acked(t, l), u, err)
	}
}

func TestAcknowledgementOfAnotherJournalIsRefusedByName(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	record(t, l, claim(t, 2))
	for name, c := range map[string]struct {
		edit func(*wire.Ack)
		want error
	}{
		"other bytes":    {func(a *wire.Ack) { a.Position.Hash = strings.Repeat("a", 64) }, ErrAckFork},
		"more entries":   {func(a *wire.Ack) { a.Position.Seq = 3 }, ErrAckAhead},
		"other terminal": {func(a *wire.Ack) { a.Terminal = "T-2" }, ErrAckEpoch},
		"other epoch":    {func(a *wire.Ack) { a.Position.Epoch = 2 }, ErrAckEpoch},
	} {
		a := ackAt(t, l, 2, noon)
		c.edit(&a)
		if err := l.Ack(ctx, a); !errors.Is(err, c.want) || acked(t, l) != 0 {
			t.Errorf("%s: %v, stands at %d", name, err, acked(t, l))
		}
	}
}

func TestStricterAllowanceBindsAndOutlivesARestart(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct{ own, central, want int64 }{
		"central's is stricter": {5, 3, 3}, "the terminal's own is stricter": {2, 900, 2}, "central sets none": {2, 0, 2}, "the terminal has none": {0, 3, 3},
	} {
		opt := options(t.TempDir())
		opt.Allowance = Allowance{Claims: c.own}
		l := openTest(t, opt)
		record(t, l, claim(t, 0))
		a := ackAt(t, l, 0, noon)
		a.AllowanceClaims, a.AllowanceMinor = c.central, 0
		if err := l.Ack(ctx, a); err != nil {
			t.Fatal(err)
		}
		l = reopen(t, l)
		for i := int64(1); i < c.want; i++ {
			record(t, l, claim(t, int(i)))
		}
		if _, err := l.Record(ctx, claim(t, 50)); !errors.Is(err, ErrAllowance) {
			t.Errorf("%s: claim %d: %v", name, c.want+1, err)
		}
		old := ackAt(t, l, 0, noon.Add(-time.Hour)) // an older note, played again
		old.AllowanceClaims, old.AllowanceMinor = 900, 0
		if err := l.Ack(ctx, old); err != nil || l.Allowance().Claims != c.want {
			t.Errorf("%s: %+v %v", name, l.Allowance(), err)
		}
	}
}

func TestRefusalByCentralIsDurable(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	for _, want := range []string{"C4", ""} {
		if err := l.SetRefused(ctx, want); err != nil {
			t.Fatal(err)
		}
		l = reopen(t, l)
		if got, err := l.Refused(ctx); err != nil || got != want {
			t.Fatalf("%q %v", got, err)
		}
	}
}

func TestPendingGivesTheExactLinesAboveTheMarkAndDeletesNothing(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	for i := range 7 {
		record(t, l, claim(t, i))
	}
	all := lines(t, l)
	if err := l.Ack(ctx, ackAt(t, l, 2, noon)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		from, got, to, err := l.Pending(ctx, 3)
		if err != nil || from != 3 || strings.Join(got, "\n") != strings.Join(all[2:5], "\n") || to.Seq != 5 || to.Hash != hashLine([]byte(all[4])).String() {
			t.Fatalf("from %d, %d lines, to %+v: %v", from, len(got), to, err)
		}
	}
	if err := l.Ack(ctx, ackAt(t, l, 7, noon)); err != nil {
		t.Fatal(err)
	}
	head, err := l.HeadPosition(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if from, got, to, err := l.Pending(ctx, 3); err != nil || from != 8 || got != nil || to != head {
		t.Fatalf("with nothing to send: from %d, %d lines, to %+v: %v", from, len(got), to, err)
	}
	if from, got, _, err := l.Since(ctx, 0, 100); err != nil || from != 1 || len(got) != 7 {
		t.Fatalf("what is acknowledged has gone: from %d, %d lines: %v", from, len(got), err)
	}
}

func TestPendingFitsAnUpload(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for i := range wire.MaxEntries {
		c := claim(t, i)
		c.Operator = strings.Repeat(`"`, 7000) // each quote is four bytes in an upload
		record(t, l, c)
	}
	from, got, to, err := l.Pending(context.Background(), 1000)
	if err != nil || len(got) == wire.MaxEntries || len(got) < 100 {
		t.Fatalf("%d lines: %v", len(got), err)
	}
	message, err := encodeJSON(wire.Upload{Protocol: 1, Epoch: 1, From: from, Lines: got, To: to, Signature: strings.Repeat("A", 100)})
	if err != nil || len(message) > wire.MaxUpload {
		t.Fatalf("%d bytes: %v", len(message), err)
	}
}

// TestCommitInDoubtIsNotShownToCentral: after a failed commit the file may show an entry
// that a power cut takes back; central must not have it.
func TestCommitInDoubtIsNotShownToCentral(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	a := ackAt(t, l, 1, noon)
	l.inDoubt = true // as Record leaves it
	if _, got, _, err := l.Pending(ctx, 10); !errors.Is(err, ErrNotWritable) || got != nil {
		t.Errorf("Pending: %d lines, %v", len(got), err)
	}
	if _, err := l.HeadPosition(ctx); !errors.Is(err, ErrNotWritable) {
		t.Errorf("HeadPosition: %v", err)
	}
	if err := l.Ack(ctx, a); !errors.Is(err, ErrNotWritable) {
		t.Errorf("Ack: %v", err)
	}
}

func TestChangedIsClosedByTheNextEntry(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	wake := l.Changed()
	record(t, l, claim(t, 1))
	<-wake
	next := l.Changed()
	record(t, l, claim(t, 1)) // the same claim makes no entry
	select {
	case <-next:
		t.Fatal("woken without an entry")
	default:
	}
}

func TestSnapshotVersionOnlyRises(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	for _, s := range []struct {
		version, want int64
		issued        time.Time
	}{{3, 3, noon}, {2, 3, noon.Add(time.Hour)}, {5, 5, noon.Add(-time.Hour)}} {
		if err := l.SetSnapshot(ctx, s.version, s.issued); err != nil {
			t.Fatal(err)
		}
		if v, err := l.Snapshot(ctx); err != nil || v != s.want {
			t.Fatalf("after %d: %d %v", s.version, v, err)
		}
		l = reopen(t, l)
	}
	if at, err := l.SignedTime(ctx); err != nil || !at.Equal(noon.Truncate(time.Millisecond)) {
		t.Fatalf("%v %v", at, err)
	}
	if err := l.Ack(ctx, wire.Ack{Terminal: "T-1", Position: wire.Position{Epoch: 1, Hash: Hash{}.String()}, Time: noon.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if at, err := l.SignedTime(ctx); err != nil || !at.Equal(noon.Add(time.Minute).Truncate(time.Millisecond)) {
		t.Fatalf("%v %v", at, err)
	}
}

// untilKilled runs this test again as a child process that does work for ever, kills it
// after it has named so many steps, and hands the last one to check.
func untilKilled(t *testing.T, work func(l *Ledger, from int64) func() int64, check func(l *Ledger, named int64) int64) {
	if arg := os.Getenv("GRATTOIR_LEDGER_CHILD"); arg != "" {
		var dir string
		var from int64
		if _, err := fmt.Sscanf(arg, "%s %d", &dir, &from); err != nil {
			t.Fatal(err)
		}
		for next := work(openTest(t, options(dir)), from); ; {
			fmt.Printf("done %d\n", next())
		}
	}
	dir := t.TempDir()
	var named int64
	for round := range 6 {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), fmt.Sprintf("GRATTOIR_LEDGER_CHILD=%s %d", dir, named))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		scan := bufio.NewScanner(out)
		for seen := 0; seen < 4+round*5 && scan.Scan(); {
			if n, err := fmt.Sscanf(scan.Text(), "done %d", &named); n == 1 && err == nil {
				seen++
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		l := openTest(t, options(dir))
		if _, err := l.Verify(context.Background()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		named = check(l, named)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKilledWhileAcknowledgingKeepsEveryMarkItNamed(t *testing.T) {
	ctx := context.Background()
	untilKilled(t, func(l *Ledger, _ int64) func() int64 {
		return func() int64 {
			head := l.Head().Seq
			c := claim(t, int(head%1000))
			c.Ticket.Pack, c.ID = 123+uint32(head/1000), fmt.Sprintf("%032x", head+1)
			record(t, l, c)
			a := ackAt(t, l, head+1, noon)
			a.AllowanceClaims = head + 1 // so that mark and allowance can be seen to move together
			if err := l.Ack(ctx, a); err != nil {
				t.Fatal(err)
			}
			return head + 1
		}
	}, func(l *Ledger, named int64) int64 {
		mark := acked(t, l)
		if head := l.Head().Seq; mark < named || mark > head || l.Allowance().Claims != mark {
			t.Fatalf("named %d, the mark is %d of %d, the allowance %d", named, mark, head, l.Allowance().Claims)
		}
		return mark
	})
}

func TestKilledWhileStoringTheFeedHasItsItemsExactlyUpToTheCursor(t *testing.T) {
	ctx := context.Background()
	untilKilled(t, func(l *Ledger, from int64) func() int64 {
		return func() int64 {
			from++
			// Two runs of one transaction: each killed one must have both or neither.
			items := []wire.FeedItem{packItem(2*from-1, 0, 9, from), packItem(2*from, 20, 29, from)}
			if err := l.ApplyFeed(ctx, items, 2*from); err != nil {
				t.Fatal(err)
			}
			return from
		}
	}, func(l *Ledger, named int64) int64 {
		cursor, err := l.FeedCursor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, pack := range []uint32{5, 25} {
			if p, ok, err := l.Pack(ctx, "00399", pack); err != nil || !ok || p.Epoch != cursor/2 || p.State != validate.PackActive {
				t.Fatalf("cursor %d, pack %d is %+v %v %v", cursor, pack, p, ok, err)
			}
		}
		if cursor/2 < named {
			t.Fatalf("named %d, the cursor is %d", named, cursor)
		}
		return cursor / 2
	})
}

// TestOldestUnsentIsTheSameAfterARestart: also when the clock was lost at that entry.
func TestOldestUnsentIsTheSameAfterARestart(t *testing.T) {
	clock := time.Time{}
	opt := options(t.TempDir())
	opt.Moment = func() Moment { return Moment{Boot: "b", Device: clock} }
	l := openTest(t, opt)
	for n := range 2 {
		record(t, l, claim(t, n))
		clock = noon
	}
	kept := must(l.Unsent(context.Background()))
	l = reopen(t, l)
	if read := must(l.Unsent(context.Background())); read != kept || !read.Oldest.IsZero() {
		t.Fatalf("kept %+v, read again %+v", kept, read)
	}
}
