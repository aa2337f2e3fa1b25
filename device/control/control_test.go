package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

type daemon struct {
	*Client
	shelf  *terminaltest.Shelf
	ledger *terminaltest.Ledger
	packs  *terminaltest.Packs
	says   *terminaltest.Messages
	path   string
}

func serve(t *testing.T, change ...func(*Options)) daemon {
	t.Helper()
	now := func() time.Time { return noon }
	d := daemon{shelf: terminaltest.NewShelf(), ledger: terminaltest.NewLedger("T-1", now), packs: terminaltest.NewPacks(), says: &terminaltest.Messages{}, path: filepath.Join(t.TempDir(), "s")}
	counter := terminal.New(terminal.Options{Name: "T-1", Shelf: d.shelf, Ledger: d.ledger, Printer: terminaltest.NewPrinter(), Central: terminaltest.NewCentral(), Packs: d.packs, Messages: d.says, Operator: "marie",
		Policy: func() policy.Policy {
			return policy.Policy{Version: "p1", Currency: "EUR", ShopLimit: 30000, ConfirmCashPrize: 10000, ClaimDays: 30}
		}, Now: now, Trusted: now,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	l, err := Listen(d.path)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Terminal: counter, Language: money.English,
		Status: func() Status { return Status{Terminal: "T-1"} }, Rescan: func() error { return errors.New("no folder") },
		Render: func(w io.Writer, r validate.Receipt) error { _, err := fmt.Fprint(w, "PNG of ", r.Number); return err }}
	for _, c := range change {
		c(&opt)
	}
	server := &http.Server{Handler: Handler(opt)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	d.Client = NewClient(d.path)
	return d
}

func (d daemon) ticket(t *testing.T, number int, amount money.Amount) ticket.Code {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "399", 123, uint16(number), fmt.Sprintf("%022d", 987654321000+int64(number)))
	if err != nil {
		t.Fatal(err)
	}
	d.shelf.Add(code, validate.Opened{Block: validate.BlockID{7}, Game: "bingo", GameName: "Bingo", Emission: "1", Number: 1, Currency: "EUR", Tier: 1, Amount: amount})
	return code
}

func TestSocketChecksPaysAndShowsTheSlip(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	a, err := d.Check(ctx, d.ticket(t, 1, 2000).Digits(), true)
	if err != nil || a.Verdict.Reason != validate.Winner || a.Entered != validate.Typed || a.Message.Word != "WINNER" {
		t.Fatalf("%+v %v", a, err)
	}
	paid, err := d.Pay(ctx, a.ID, false)
	if err != nil || paid.Receipt == nil || paid.Receipt.Number != "1-000001" || paid.Receipt.AmountMinor != 2000 {
		t.Fatalf("%+v %v", paid, err)
	}
	if png, err := d.Slip(ctx, "1-000001"); err != nil || string(png) != "PNG of 1-000001" {
		t.Fatalf("%s %v", png, err)
	}
	if _, err := d.Slip(ctx, "1-000002"); err == nil {
		t.Fatal("a slip of no claim")
	}
	if list, err := d.Last(ctx); err != nil || len(list) != 1 || list[0].Ticket != "001" {
		t.Fatalf("%+v %v", list, err)
	}
}

func TestPaymentsThatAreNotTriedSayWhy(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	a, err := d.Check(ctx, d.ticket(t, 1, 10000).Digits(), false)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.Pay(ctx, a.ID, false); !errors.Is(err, terminal.ErrNeeds) || again.ID != a.ID || len(again.Verdict.Needs) != 1 {
		t.Fatalf("%+v %v", again, err)
	}
	if again, err := d.Pay(ctx, strings.Repeat("0", 32), true); !errors.Is(err, terminal.ErrStale) || again.ID != a.ID {
		t.Fatalf("%+v %v", again, err)
	}
	if n := len(d.ledger.Claims()); n != 0 {
		t.Fatalf("%d claims", n)
	}
}

func TestNextWaitsForAnotherTicket(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	before, err := d.View(ctx)
	if err != nil || before.Stage != terminal.Idle {
		t.Fatalf("%+v %v", before, err)
	}
	next := make(chan Answer, 1)
	go func() {
		a, _ := d.Next(ctx, before)
		next <- a
	}()
	a, err := d.Check(ctx, d.ticket(t, 1, 2000).Digits(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-next; got.ID != a.ID {
		t.Fatalf("%+v, want %s", got, a.ID)
	}
}

func TestNoAnswerShowsAWholeCode(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	code := d.ticket(t, 1, 2000)
	for _, body := range []string{`{"code":"` + code.Digits() + `"}`, `{"code":"` + code.Digits() + `","x":1}`, `{"code":` + code.Digits() + `}`, `{"code":"` + code.Digits()} {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://terminald/v1/check", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := d.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || strings.Contains(string(text), code.Secret()) {
			t.Errorf("%s shows the secret, %v", res.Status, err)
		}
		_ = res.Body.Close()
	}
}

func TestRequestsAreBounded(t *testing.T) {
	d := serve(t)
	_, err := d.Check(context.Background(), strings.Repeat("1", 1<<20), false)
	if err == nil {
		t.Fatal("a megabyte was taken for a code")
	}
}

func TestListenTakesTheDeadSocketsPlaceAndNoOther(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	alive, err := Listen(dead)
	if err != nil {
		t.Fatalf("a socket that nobody answers at: %v", err)
	}
	defer alive.Close()
	if info, err := os.Stat(dead); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := Listen(dead); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a socket that answers: %v", err)
	}
	file := filepath.Join(dir, "ledger.db")
	if err := os.WriteFile(file, []byte("money"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file); err == nil {
		t.Error("a file was taken for a socket")
	}
	if text, _ := os.ReadFile(file); string(text) != "money" {
		t.Error("the file is gone")
	}
}

func TestClientSaysThatNoDaemonAnswers(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "none")).Status(context.Background())
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "is it running?") {
		t.Fatal(err)
	}
}

// TestRequestThatIsGivenUpBlamesNotTheDaemon: Ctrl-C in a self-test is no dead daemon.
func TestRequestThatIsGivenUpBlamesNotTheDaemon(t *testing.T) {
	d := serve(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupt"))
	if _, err := d.Status(ctx); err == nil || errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "given up") || !strings.Contains(err.Error(), "interrupt") {
		t.Errorf("%v", err)
	}
}

func TestLedgerNumberIsReadAsTheSlipShowsIt(t *testing.T) {
	n := validate.EntryNumber{Epoch: 3, Seq: 1234567}
	if got, err := ParseNumber(n.String()); err != nil || got != n {
		t.Fatalf("%v %v", got, err)
	}
	for _, bad := range []string{"", "17", "1-", "-1", "1-0", "0-1", "a-1", "1-000017x"} {
		if _, err := ParseNumber(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

// TestClientKnowsTheCountersRefusalsByTheirErrors: what they are is not read from a text.
func TestClientKnowsTheCountersRefusalsByTheirErrors(t *testing.T) {
	d := serve(t)
	ctx := context.Background()
	if _, err := d.Batch(ctx); !errors.Is(err, terminal.ErrNoBatch) {
		t.Errorf("no batch: %v", err)
	}
	if err := d.Lock(ctx); !errors.Is(err, terminal.ErrNoStaff) {
		t.Errorf("no sign-on: %v", err)
	}
}
