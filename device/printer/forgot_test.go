package printer_test

import (
	"errors"
	"strings"
	"testing"

	"grattoir/device/printer"
	"grattoir/device/sim"
)

// A printer that was switched off and on with a slip inside is ready again and has
// forgotten it: to call that "sent" would leave the player without a slip and tell nobody.
func TestSlipInAPrinterSwitchedOffIsUnknownAndTheNextIsCutApart(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{PaperLines: 2})
	p := b.print(t.Context(), receipt("PERDU"))
	b.until("out of paper", func(s printer.Status) bool { return s.Fault != nil && s.Fault.Code == "P2" })
	b.paper.PowerCycle()
	b.paper.LoadPaper(0)
	err := p.ended(printer.StateUnknown)
	if u, ok := errors.AsType[*printer.Unknown](err); !ok || u.Sent != u.Total {
		t.Fatalf("got %v", err)
	}
	if err := b.print(t.Context(), receipt("SUIVANT")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	slips := b.paper.Slips()
	if last := slips[len(slips)-1].Text(); len(slips) != 2 || strings.Contains(last, "PERDU") || !strings.Contains(last, "SUIVANT") {
		t.Errorf("%d pieces of paper, the last is\n%s", len(slips), last)
	}
}

// Its words are "switch it off and on", and the slip is gone with that.
func TestSlipInABrokenPrinterIsUnknownAtOnce(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{Stalled: true}})
	p := b.print(t.Context(), receipt("PERDU"))
	p.told(printer.StateSending)
	b.paper.Set(func(s *sim.State) { s.Broken = true })
	err := p.ended(printer.StateUnknown)
	if _, ok := errors.AsType[*printer.Unknown](err); !ok {
		t.Fatalf("got %v", err)
	}
	b.until("broken", func(s printer.Status) bool { return s.Fault != nil && s.Fault.Code == "P5" })
	b.paper.PowerCycle()
	b.paper.Set(func(s *sim.State) { s.Stalled = false })
	b.until("ready", func(s printer.Status) bool { return s.Fault == nil })
	if err := b.print(t.Context(), receipt("SUIVANT")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
}

// One answer that is lost in noise must not cost the proofs of all later slips, and its own
// slip is not vouched for by the lesser proof: that is one byte, and noise can look like it.
func TestPrinterThatLostOneAnswerIsAskedForItsProofAgain(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	for _, c := range []struct {
		silent bool
		want   printer.State
	}{{false, printer.StatePrinted}, {true, printer.StateUnknown}, {false, printer.StatePrinted}} {
		if err := b.paper.Adjust(func(o *sim.PrinterOptions) { o.NoProcessID = c.silent }); err != nil {
			t.Fatal(err)
		}
		if err := b.print(t.Context(), receipt("REÇU")).ended(c.want); (err != nil) != c.silent {
			t.Fatal(err)
		}
	}
}
