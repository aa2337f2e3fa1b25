package printer_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"grattoir/device/printer"
	"grattoir/device/sim"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/proof"
)

// desk is a counter's printer whose slips are signed, with the key that proves them.
func desk(t *testing.T, profile string, opt sim.PrinterOptions) (*bench, printer.Desk, proof.Key) {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), 9))
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, profile, opt, func(c *printer.Config) { c.Profile.Cutter = printer.PartialCut }) // so that slips can be counted
	st := printer.Stationery{Shop: printer.Shop{Name: "Tabac"}, Language: money.French, Zone: time.UTC, Sign: func(r validate.Receipt) (string, error) {
		s, err := proof.Of(r)
		if err != nil {
			return "", err
		}
		c, err := s.Sign(func(text []byte) ([]byte, error) {
			digest := sha256.Sum256(text)
			return key.Sign(nil, digest[:], crypto.SHA256) // the same each run: the reader misses a few codes in a thousand
		})
		return c.String(), err
	}}
	return b, printer.Desk{Device: b.Device, Stationery: st, Log: slog.New(slog.NewTextHandler(b.log, nil))}, proof.Key{Terminal: "T-1", Public: &key.PublicKey}
}

func claimed(state validate.PrintState, copies int) validate.Receipt {
	hash := sha256.Sum256([]byte(state))
	return validate.Receipt{Terminal: "T-1", Number: validate.EntryNumber{Epoch: 1, Seq: 42}, Hash: fmt.Sprintf("%x", hash), At: time.Unix(1796000000, 0), Print: state, Copies: copies,
		Claim: validate.Claim{Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{Game: "Bingo", Emission: "1", GameCode: "00399", Pack: "0000123", Ticket: "017", SecretTail: "74"}}}
}

// TestSlipOfEachPrintStateProvesItself prints originals and copies as the ledger hands
// them on, drawn by the printer itself and as a picture, and reads the code off the paper.
func TestSlipOfEachPrintStateProvesItself(t *testing.T) {
	for _, profile := range []string{"epson-tm-t20", "epson-tm-t88", "generic-58"} {
		t.Run(profile, func(t *testing.T) {
			b, d, key := desk(t, profile, sim.PrinterOptions{})
			printed := 0
			for _, state := range []validate.PrintState{validate.Sending, validate.Held, validate.Unknown, validate.Sent, validate.Consumed, validate.Printed} {
				for _, copies := range []int{1, 12} {
					r := claimed(state, copies)
					level, err := d.Print(t.Context(), r, false, func(*terminal.Fault) {})
					if err != nil || !level.Done() {
						t.Fatalf("%s, copy %d: %s, %v", state, copies, level, err)
					}
					printed++
					b.slips(printed)
					paper := b.paper.Slips()[printed-1]
					if marked := strings.Contains(paper.Text(), "DUPLICATA"); marked != (copies > 1) {
						t.Errorf("%s, copy %d: DUPLICATA %v", state, copies, marked)
					}
					proves(t, paper, r, key)
				}
			}
		})
	}
}

func proves(t *testing.T, paper sim.Slip, r validate.Receipt, key proof.Key) {
	t.Helper()
	c, err := proof.Parse(qrOn(t, paper))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := proof.Of(r); err != nil || c.Statement != want {
		t.Errorf("%s, copy %d: the paper says %+v, want %+v, %v", r.Print, r.Copies, c.Statement, want, err)
	}
	if err := c.Verify(key); err != nil {
		t.Errorf("%s, copy %d: %v", r.Print, r.Copies, err)
	}
}

// TestSlipHeldByPaperOutProvesItself: it was begun, waited, and went on.
func TestSlipHeldByPaperOutProvesItself(t *testing.T) {
	b, d, key := desk(t, "epson-tm-t20", sim.PrinterOptions{PaperLines: 5})
	r := claimed(validate.Sending, 1)
	held, end := make(chan struct{}, 64), make(chan error, 1)
	var level validate.PrintState
	go func() {
		var err error
		level, err = d.Print(t.Context(), r, false, func(f *terminal.Fault) {
			if f != nil {
				held <- struct{}{}
			}
		})
		end <- err
	}()
	select {
	case <-held:
	case err := <-end:
		t.Fatalf("ended as %s, %v", level, err)
	}
	b.paper.LoadPaper(0)
	if err := <-end; err != nil || level != validate.Printed {
		t.Fatalf("%s, %v", level, err)
	}
	b.slips(1)
	proves(t, b.paper.Slips()[0], r, key)
}

// TestSlipThatCannotBeSignedIsPrintedAndLogged: the player has been paid.
func TestSlipThatCannotBeSignedIsPrintedAndLogged(t *testing.T) {
	b, d, _ := desk(t, "epson-tm-t20", sim.PrinterOptions{})
	d.Stationery.Sign = func(validate.Receipt) (string, error) { return "", errors.New("slip.key is damaged") }
	if level, err := d.Print(t.Context(), claimed(validate.Sending, 1), false, func(*terminal.Fault) {}); err != nil || level != validate.Printed {
		t.Fatalf("%s, %v", level, err)
	}
	b.slips(1)
	text := b.paper.Slips()[0].Text()
	if !strings.Contains(text, "1-000042") || strings.Contains(text, "[image") || strings.Contains(text, "contrôle") {
		t.Errorf("the slip:\n%s", text)
	}
	if log := b.log.String(); strings.Count(log, "slip.key is damaged") != 1 || !strings.Contains(log, "seq=42") {
		t.Errorf("the log:\n%s", log)
	}
}
