package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"grattoir/validate"
)

// TestWhatATerminalTellsFitsARequest, at every limit at once.
func TestWhatATerminalTellsFitsARequest(t *testing.T) {
	name := strings.Repeat("n", 63)
	block := validate.BlockID{1}
	s := Standing{Protocol: 1, Mark: FormatTime(time.Time{})}
	for n := range 3 * MaxStandingRuns {
		s.Packs = append(s.Packs, PackItem{GameCode: strings.Repeat("9", 16), First: 4_000_000_000 + uint32(n), Last: 4_000_000_000 + uint32(n), State: "delivered", Owner: name, Epoch: 1 << 40})
	}
	for range 3 * MaxStandingClaims {
		s.Claims = append(s.Claims, Permission{ClaimRequest{Protocol: 1, Claim: strings.Repeat("a", 32), Block: block, Pack: 1 << 31, Ticket: 60000, Round: 1 << 20, Tier: 1 << 16, AmountMinor: 1 << 53, Currency: "EUR", Opening: strings.Repeat("A", MaxOpening)}, 1 << 40})
	}
	for range 3 * MaxStandingHolds {
		s.Held = append(s.Held, HoldAck{Hold: 1 << 50, Block: block, Pack: 1 << 31, Ticket: 60000, Paid: validate.EntryNumber{Epoch: 1 << 30, Seq: 1 << 50}, At: strings.Repeat("9", 24)})
		s.Paid = append(s.Paid, PaidItem{Block: block, Pack: 1 << 31, Ticket: 60000, Terminal: name, Number: strings.Repeat("9", 24), At: strings.Repeat("9", 24)})
	}
	parts := s.Parts()
	if len(parts) != 3 || !parts[2].Last || parts[0].Last {
		t.Fatalf("%d parts", len(parts))
	}
	for n, part := range parts {
		text, err := json.Marshal(part)
		if err != nil || len(text) > MaxRequest || part.Check() != nil {
			t.Errorf("part %d: %d bytes of %d: %v %v", n, len(text), MaxRequest, err, part.Check())
		}
	}
	if one := (Standing{Packs: []PackItem{{GameCode: "1", First: 1, Last: 2500, Epoch: 1}}}).Parts(); len(one[0].Packs) != 3 || one[0].Packs[2].First != 2001 || one[0].Packs[2].Last != 2500 {
		t.Errorf("%+v", one[0].Packs)
	}
}
