package seal

import (
	"context"
	"os"
	"testing"

	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// TestVectorOfVersion1OpensForEver is the file that every later reader must open.
func TestVectorOfVersion1OpensForEver(t *testing.T) {
	public, err := os.ReadFile("../testdata/v1/lottery.pub")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.NewKeys(1, string(public))
	if err != nil {
		t.Fatal(err)
	}
	csv, err := os.ReadFile("../testdata/v1/tickets.csv")
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, "../testdata/v1/essai.manifest", keys)
	if err := b.Verify(context.Background(), func(int) {}); err != nil {
		t.Error(err)
	}
	n := 0
	fixture{csv: csv}.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		n++
		tier, err := b.Open(context.Background(), c)
		if err != nil || tier == 0 && prize != 0 || tier > 0 && b.Header.Tiers[tier-1].Amount != prize {
			t.Fatalf("%v: tier %d, %v", c, tier, err)
		}
	})
	if n != 1230 {
		t.Errorf("%d tickets", n)
	}
}
