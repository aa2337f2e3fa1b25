package terminal

import (
	"testing"

	"grattoir/validate"
)

// TestBatchShowsEachSlipAsItIs: whoever pays a batch goes on with its views while the page
// and the printing lane read what is shown, and a slip that came out meanwhile is not shown
// as waiting again.
func TestBatchShowsEachSlipAsItIs(t *testing.T) {
	waits := validate.Receipt{Number: validate.EntryNumber{Epoch: 1, Seq: 7}, Print: validate.Sending}
	b := Batch{ID: "b", Views: []View{{ID: "1", Receipt: &waits}, {ID: "2"}}}
	var s State
	s.putBatch(b)
	b.Views[1].ID = "changed"
	if s.Batch.Views[1].ID != "2" {
		t.Fatal("what is shown is written to")
	}

	out := waits
	out.Print = validate.Printed
	s.Batch.Views[0].Receipt = &out
	other := validate.Receipt{Number: validate.EntryNumber{Epoch: 1, Seq: 8}, Print: validate.Sending}
	b.Views[1].Receipt = &other
	s.putBatch(b)
	if v := s.Batch.Views; v[0].Receipt.Print != validate.Printed || v[1].Receipt != &other || b.Views[0].Receipt != &waits {
		t.Errorf("slips %v and %v", v[0].Receipt.Print, v[1].Receipt.Print)
	}
	b.ID = "c"
	if s.putBatch(b); s.Batch.Views[0].Receipt != &waits {
		t.Error("another batch's slip")
	}
}
