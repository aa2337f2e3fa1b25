package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/cmd/internal/pins"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/gpio"
	"grattoir/device/screen"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// bench is a counter with its page and its pins, with nothing else around it.
type bench struct {
	d                                        *daemon
	ledger                                   *terminaltest.Ledger
	shelf                                    *terminaltest.Shelf
	drawer, win, refuse, buzzer, tamper, pay *gpio.Fake
}

func newBench(t *testing.T) *bench {
	log := slog.New(slog.DiscardHandler)
	b := &bench{ledger: terminaltest.NewLedger("T-1", time.Now), shelf: terminaltest.NewShelf()}
	text := strings.NewReplacer("# drawer =", "drawer =", "# win =", "win =", "# refuse =", "refuse =", "# buzzer =", "buzzer =", "# tamper =", "tamper =", "# pay =", "pay =").
		Replace(string(configs.TerminalExample))
	c, err := configs.ParseTerminal("terminald.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b.drawer, b.win, b.refuse, b.buzzer = gpio.NewFake("GPIO22"), gpio.NewFake("GPIO23"), gpio.NewFake("GPIO24"), gpio.NewFake("GPIO26")
	b.tamper, b.pay = gpio.NewFake("GPIO20"), gpio.NewFake("GPIO21")
	b.tamper.Drive(false) // the case is closed
	b.d = &daemon{config: c, log: log, pins: gpio.Fakes(b.drawer, b.win, b.refuse, b.buzzer, b.tamper, b.pay)}
	b.d.openBoard()
	b.d.counter = terminal.New(terminal.Options{Name: "T-1", Shelf: b.shelf, Ledger: b.ledger, Printer: terminaltest.NewPrinter(), Central: terminaltest.NewCentral(),
		Policy: func() policy.Policy {
			return policy.Policy{Version: "p", Currency: "EUR", ShopLimit: 50000, ConfirmCashPrize: 10000, ClaimDays: 30}
		},
		Trusted: time.Now, Now: time.Now, Log: log})
	b.d.board.follow(b.d.counter)
	if b.d.page, err = screen.New(screen.Options{Terminal: b.d.counter, Log: log}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.d.board.run(ctx, b.d.counter, b.d.page) }()
	t.Cleanup(func() { cancel(); <-done; b.d.close() })
	pass(time.Second)
	return b
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) scan(t *testing.T, number uint16, amount money.Amount) {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "512", 123, number, "0123456789012345678901")
	if err != nil {
		t.Fatal(err)
	}
	o := validate.Opened{Block: validate.BlockID{1}, Game: "bingo", GameName: "Bingo", Emission: "1", Number: 1, Currency: "EUR", Amount: amount}
	if amount > 0 {
		o.Tier = 3
	}
	b.shelf.Add(code, o)
	b.d.counter.Check(t.Context(), terminal.Scan{Text: code.Digits()})
}

func (b *bench) press() {
	b.pay.Bounce(false, 4)
	pass(150 * time.Millisecond)
	b.pay.Bounce(true, 4)
	pass(time.Second)
}

func pulses(f *gpio.Fake) (n int) {
	for _, c := range f.Trace() {
		if c.High {
			n++
		}
	}
	return n
}

func TestButtonLampsAndDrawerFollowACustomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.press() // nothing is shown
		b.scan(t, 1, 0)
		b.press() // pressed on a loser, and too soon after it
		pass(time.Second)
		if !b.refuse.Level() || b.win.Level() {
			t.Error("a loser's lamps: win", b.win.Level(), "refuse", b.refuse.Level())
		}
		b.press()
		b.scan(t, 2, 2000)
		pass(time.Second)
		if b.refuse.Level() || !b.win.Level() || pulses(b.buzzer) != 3 {
			t.Error("a winner's lamps: win", b.win.Level(), "refuse", b.refuse.Level(), "sounds", pulses(b.buzzer))
		}
		if len(b.ledger.Claims()) != 0 || pulses(b.drawer) != 0 {
			t.Fatal("paid before the button was pressed")
		}
		b.press()
		b.press() // once more on the paid ticket
		if got := b.ledger.Claims(); len(got) != 1 || pulses(b.drawer) != 1 {
			t.Fatalf("%d claims, drawer opened %d times", len(got), pulses(b.drawer))
		}
		b.scan(t, 3, 20000)
		pass(3 * time.Second)
		b.press()
		if len(b.ledger.Claims()) != 1 {
			t.Error("200 € were paid and nobody was asked about the cash")
		}
		b.press()
		if len(b.ledger.Claims()) != 2 || pulses(b.drawer) != 2 {
			t.Errorf("%d claims, drawer opened %d times, after yes", len(b.ledger.Claims()), pulses(b.drawer))
		}
	})
}

func TestFaultsOfThePinsReachThePageAndCentral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.tamper.Drive(true)
		pass(time.Second)
		if got := faultCodes(b.d.counter); !slices.Contains(got, "G7") || !slices.Contains(got, "G8") {
			t.Errorf("codes %v with an open case", got)
		}
	})
}

func TestPinsOfARunningTerminaldAreLeftAlone(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	other, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	f := gpio.NewFake("GPIO22")
	c := configs.Terminal{Socket: socket, GPIO: configs.GPIO{Drawer: configs.OutputPin{Pin: "GPIO22"}}}
	d := &daemon{config: c, log: slog.New(slog.DiscardHandler), pins: gpio.Fakes(f)}
	d.openBoard()
	if len(f.Calls()) != 0 || d.board != nil {
		t.Errorf("a second terminald did %v to the drawer", f.Calls())
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d.openBoard()
	if !slices.Equal(f.Calls(), []string{"out Low"}) {
		t.Errorf("with no other it did %v", f.Calls())
	}
}

func TestNoPinConfiguredLooksForNone(t *testing.T) {
	d := &daemon{pins: pins.Machine(configs.Terminal{})}
	d.openBoard()
	if d.pins != nil || d.board != nil {
		t.Error("pins were looked for")
	}
	d.board.follow(nil)
	d.board.run(t.Context(), nil, nil)
}

// The real program with pins configured, on a machine that has none: one line says so, and
// everything else works.
func TestTerminalWithoutGPIOSaysSoOnceAndWorks(t *testing.T) {
	if chips, _ := filepath.Glob("/dev/gpiochip*"); len(chips) > 0 {
		t.Skip("this machine has GPIO: a terminal that has none cannot be tried")
	}
	s := openShop(t)
	config := filepath.Join(s.Dir, "terminald.toml")
	text := shopConfig + "[gpio]\ndrawer = { pin = \"GPIO22\" }\nwin = { pin = \"GPIO23\" }\npay = { pin = \"GPIO21\", active_low = true }\nbusy = { pin = \"GPIO5\" }\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.await(t, func(st control.Status) bool { return len(st.Board) == 1 && st.Board[0].Code == gpio.CodeNone })
	s.pay(t, s.scan(t, s.codes["2000"][0]))
	s.printed(t)
	s.stop(t)
	log, err := os.ReadFile(s.LogPath())
	if err != nil || strings.Count(strings.ToLower(string(log)), "gpio fault") != 1 || strings.Count(strings.ToLower(string(log)), "gpiochip") != 1 {
		t.Errorf("%v, the log:\n%s", err, log)
	}
	wrong := strings.Replace(text, "GPIO23", "GPIO22", 1)
	if err := os.WriteFile(config, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "gpio.drawer.pin, gpio.win.pin") {
		t.Error("two outputs on one line:", err)
	}
}

// The whole daemon on pins that are not there: a customer is served with the button alone.
func TestDaemonServesACustomerByItsPins(t *testing.T) {
	s := openShop(t)
	config := filepath.Join(s.Dir, "terminald.toml")
	text := shopConfig + "[gpio]\ndrawer = { pin = \"GPIO22\" }\nwin = { pin = \"GPIO23\" }\npay = { pin = \"GPIO21\", active_low = true }\n" +
		"busy = { pin = \"GPIO5\" }\npower = { pin = \"GPIO6\" }\npower_off_ms = 100\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := configs.LoadTerminal(config)
	if err != nil {
		t.Fatal(err)
	}
	drawer, win, pay, busy, power := gpio.NewFake("GPIO22"), gpio.NewFake("GPIO23"), gpio.NewFake("GPIO21"), gpio.NewFake("GPIO5"), gpio.NewFake("GPIO6")
	d := &daemon{config: c, log: slog.New(slog.DiscardHandler), now: clock(), pins: gpio.Fakes(drawer, win, pay, busy, power)}
	ctx, stop := context.WithCancel(deadline(t))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	s.await(t, func(st control.Status) bool { return st.Scanner == nil && st.Printer == nil })
	if !power.Level() {
		t.Error("the printer answers and its power is off")
	}
	s.scan(t, s.codes["2000"][0])
	until(t, "the lamp", win.Level)
	down := false
	until(t, "the payment", func() bool { // the first presses come too soon after the verdict
		down = !down
		pay.Drive(!down)
		list, err := s.Client.Last(ctx)
		return err == nil && len(list) == 1
	})
	until(t, "the drawer", func() bool { return pulses(drawer) == 1 && !drawer.Level() })
	s.printed(t)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if win.Level() || drawer.Level() || !win.IsOutput() || pulses(drawer) != 1 {
		t.Error("after the stop: lamp", win.Level(), "drawer", drawer.Trace())
	}
}

// until looks again and again, a quarter of a second apart.
func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	ctx := deadline(t)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("never came: ", what)
		}
	}
}
