package printer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"grattoir/device/printer"
	"grattoir/device/sim"
)

// heldForPaper starts a slip on a printer whose roll ends in it.
func heldForPaper(t *testing.T, profile string, change ...func(*printer.Config)) (*bench, *printing) {
	t.Helper()
	b := start(t, profile, sim.PrinterOptions{PaperLines: 3}, change...)
	p := b.print(t.Context(), receipt("ABANDON"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	return b, p
}

// nextIsWhole loads paper and prints: nothing of the dropped slip may come with it.
func (b *bench) nextIsWhole() {
	b.t.Helper()
	b.paper.LoadPaper(0)
	b.until("well again", func(s printer.Status) bool { return s.Fault == nil })
	p := b.print(b.t.Context(), receipt("SUIVANT"))
	if err := <-p.end; err != nil {
		b.t.Fatal(err)
	}
	slips := b.paper.Slips()
	if len(slips) != 2 {
		b.t.Fatalf("%d slips, want the torn piece and the next:\n%s", len(slips), b.paper.Text())
	}
	if torn := slips[0].Text(); strings.Contains(torn, "Émission") {
		b.t.Errorf("the dropped slip came out:\n%s", torn)
	}
	if last := slips[1].Text(); !strings.Contains(last, "SUIVANT") || strings.Contains(last, "ABANDON") {
		b.t.Errorf("the next slip is\n%s", last)
	}
}

// TestHeldSlipCanBeDropped: five presses made five slips, and nothing cleared them
// (mike42/escpos-php#411).
func TestHeldSlipCanBeDropped(t *testing.T) {
	b, p := heldForPaper(t, "epson-tm-t20")
	for range 5 {
		b.print(t.Context(), receipt("ENCORE")).ended(printer.StateHeld)
	}
	if err := b.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(printer.StateUnknown); !errors.Is(err, printer.ErrCleared) {
		t.Errorf("got %v", err)
	}
	b.nextIsWhole()
}

// TestHeldSlipIsDroppedBySupplyWhereNoCommandDoes switches a printer off and on by its pin.
func TestHeldSlipIsDroppedBySupplyWhereNoCommandDoes(t *testing.T) {
	var b *bench
	var p *printing
	var switched []bool
	b, p = heldForPaper(t, "generic-80", func(c *printer.Config) {
		c.Power = func(_ context.Context, on bool) error {
			if switched = append(switched, on); !on {
				b.paper.PowerCycle()
			}
			return nil
		}
	})
	if err := b.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(printer.StateUnknown); !errors.Is(err, printer.ErrCleared) {
		t.Errorf("got %v", err)
	}
	if len(switched) != 3 || !switched[0] || switched[1] || !switched[2] {
		t.Errorf("the pin went %v, want on, off, on", switched)
	}
	b.nextIsWhole()
}

// TestSlipDroppedMidwayIsNotSentOn has a printer that takes no byte more, so that even the
// command to clear gets no answer: who asked is told, and the rest is not sent.
func TestSlipDroppedMidwayIsNotSentOn(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.Set(func(s *sim.State) { s.Stalled = true })
	p := b.print(t.Context(), long())
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	if err := b.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "not wholly") {
		t.Errorf("recover in the middle of a slip: %v", err)
	}
	if err := b.Clear(t.Context()); err == nil {
		t.Error("cleared, says a printer that has not been heard")
	}
	err := p.ended(printer.StateUnknown)
	if unknown, ok := errors.AsType[*printer.Unknown](err); !ok || unknown.Sent >= unknown.Total || !errors.Is(err, printer.ErrCleared) {
		t.Errorf("got %v", err)
	}
}

func TestJammedCutterGoesOnOnRequest(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{CutterJam: true}})
	p := b.print(t.Context(), receipt("BLOQUÉ"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	b.untilFault("P4")
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

func TestRecoveryIsRefusedWhereThereIsNone(t *testing.T) {
	b, p := heldForPaper(t, "epson-tm-t20")
	if err := b.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "only a jammed") {
		t.Errorf("with no paper: %v", err)
	}
	b.paper.LoadPaper(0)
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	if err := b.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "no fault") {
		t.Errorf("with a printer that is well: %v", err)
	}
	if err := b.paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	b.untilFault("P1")
	if err := b.Clear(t.Context()); err == nil || !strings.Contains(err.Error(), "P1") {
		t.Errorf("with no printer: %v", err)
	}
	simple := start(t, "generic-80", sim.PrinterOptions{})
	for name, f := range map[string]func(context.Context) error{"clear": simple.Clear, "recover": simple.Recover} {
		if err := f(t.Context()); err == nil || !strings.Contains(err.Error(), "off") {
			t.Errorf("%s on a model without it: %v", name, err)
		}
	}
}

// TestPinThatFailsToSwitchOnAgainIsTriedUntilItDoes: the slip is gone with the supply, and
// nobody need ask a second time.
func TestPinThatFailsToSwitchOnAgainIsTriedUntilItDoes(t *testing.T) {
	var b *bench
	wasOff, broken := false, errors.New("the pin does not move")
	b, p := heldForPaper(t, "generic-80", func(c *printer.Config) {
		c.Power = func(_ context.Context, on bool) error {
			switch {
			case !on:
				b.paper.PowerCycle()
				b.paper.Set(func(s *sim.State) { s.Off = true })
				wasOff = true
			case wasOff:
				wasOff = false
				return broken
			default:
				if b != nil { // not the first connection
					b.paper.Set(func(s *sim.State) { s.Off = false })
				}
			}
			return nil
		}
	})
	if err := b.Clear(t.Context()); !errors.Is(err, broken) {
		t.Errorf("cleared: %v", err)
	}
	if err := p.ended(printer.StateUnknown); !errors.Is(err, printer.ErrCleared) {
		t.Errorf("got %v", err)
	}
	b.nextIsWhole()
}
