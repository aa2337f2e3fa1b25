package ledger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
)

// BenchmarkYear measures what the end of a year costs at a busy counter: 300 payments a
// day in two shifts, 365 days, 40 games. Making the year takes a minute.
func BenchmarkYear(b *testing.B) {
	p := newParties(b)
	p.clock = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for day := range 365 {
		for range 2 {
			p.begin(b, 10_000)
			for i := range 150 {
				p.pay(b, validate.TicketKey{Block: validate.BlockID{byte(1 + i%40)}, Pack: uint32(1 + len(p.claims)/900), Number: uint16(len(p.claims) % 900)}, 0, money.Amount(500+i*100), "EUR")
			}
			if _, err := p.l.CloseShift(context.Background(), Ending{Operator: "marie"}); err != nil {
				b.Fatal(err)
			}
			p.shift = false
			p.numbers[validate.ShiftClosing]++
		}
		if day < 364 { // the last day is open
			if _, err := p.l.Z(context.Background(), validate.DayClosing, Ending{Operator: "marie"}); err != nil {
				b.Fatal(err)
			}
		}
		p.clock = p.clock.AddDate(0, 0, 1)
	}
	ctx := context.Background()
	b.Run("X", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.l.X(ctx, validate.YearClosing); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, kind := range validate.ClosingKinds()[1:] {
		if _, err := p.l.Z(ctx, kind, Ending{Operator: "marie"}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Verify", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.l.Verify(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Archive", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.l.Archive(ctx, 2026, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	var whole bytes.Buffer
	if _, err := p.l.Archive(ctx, 2026, &whole); err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("VerifyArchive/%dMB", whole.Len()>>20), func(b *testing.B) {
		for b.Loop() {
			if _, err := VerifyArchive(bytes.NewReader(whole.Bytes()), p.keys); err != nil {
				b.Fatal(err)
			}
		}
	})
}
